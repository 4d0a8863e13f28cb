"""Keys of protected values: which are in use, sealing again with the current one, and dropping.

A rotation works in portions, each a transaction of its own. How far it has come is shown by the
rows themselves: begun again after whatever ended it, it passes over what has the current key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import connections, router, transaction

from jobs import keyring, sensitive
from jobs.engine import sql
from jobs.engine.timetables import schedule_place
from jobs.errors import SealError
from jobs.fields.columns import EncryptedField, encrypted_fields, tenant_column
from jobs.keyring import Place

CHUNK = 500


@dataclass(frozen=True, slots=True)
class Store:
    """A column that holds sealed values."""

    name: str
    alias: str
    table: str
    key: str
    """Its primary key's column."""
    columns: str
    """What else is read of a row, after key and value."""
    value: str
    """The column, as text."""
    like: str
    """What the text of a row with something sealed is like."""
    cast: str
    places: Callable[[tuple[Any, ...]], Place]
    """Where the value of a row belongs."""
    key_ids: Callable[[str], Iterable[str]]
    resealed: Callable[[str, Place, str], str]
    """The text with everything sealed by the given current key."""


@dataclass(frozen=True, slots=True)
class Portion:
    """What one transaction of a rotation did."""

    store: str
    rows: int
    """Rows sealed again."""
    broken: tuple[str, ...] = ()
    """Rows that do not open, and why; they stay as they are."""


def stores(models: Iterable[Any] | None = None) -> list[Store]:
    """Every column of the database that may hold sealed values."""
    known = apps.get_models() if models is None else models
    fields = [
        field
        for model in known
        if model._meta.managed and not model._meta.proxy
        for field in encrypted_fields(model)
    ]
    return [*map(_column_store, fields), _payloads(), _schedules()]


def _column_store(field: EncryptedField) -> Store:
    meta = field.model._meta
    alias = router.db_for_write(field.model)
    quote = connections[alias].ops.quote_name
    column = quote(str(field.column))
    tenant = ""
    if field.tenant_field:
        tenant = quote(str(tenant_column(field.model, field.tenant_field).column))
    assert meta.pk is not None  # noqa: S101 - a concrete model has one

    def reseal(text: str, place: Place, current: str) -> str:
        if text.startswith(f"{keyring.FORMAT}.{current}."):
            return text
        ring = keyring.ring()
        return ring.seal(ring.open(text, place), place)

    return Store(
        name=f"{meta.db_table}.{field.column}",
        alias=alias,
        table=quote(meta.db_table),
        key=quote(str(meta.pk.column)),
        columns=f", {tenant}" if tenant else "",
        value=column,
        like="%",
        cast="",
        places=lambda row: field.place_of(row[0], row[2] if tenant else ""),
        key_ids=lambda text: [keyring.key_id(text)],
        resealed=reseal,
    )


def _reseal_payload(text: str, place: Place, current: str) -> str:
    return sensitive.moved(text, place, place, stale=current)


def _payloads() -> Store:
    return Store(
        name="jobs_job.payload",
        alias=sql.alias(),
        table="jobs_job",
        key="id",
        columns=", tenant",
        value="payload::text",
        like=f"%{sensitive.IN_TEXT}%",
        cast="::jsonb",
        places=lambda row: keyring.job_place(row[0], row[2]),
        key_ids=sensitive.key_ids,
        resealed=_reseal_payload,
    )


def _schedules() -> Store:
    return Store(
        name="jobs_schedule.payload",
        alias=sql.alias(),
        table="jobs_schedule",
        key="id",
        columns=", name",
        value="payload::text",
        like=f"%{sensitive.IN_TEXT}%",
        cast="::jsonb",
        places=lambda row: schedule_place(row[2]),
        key_ids=sensitive.key_ids,
        resealed=_reseal_payload,
    )


# ---- which are in use


def usage(
    models: Iterable[Any] | None = None, stores_of: Iterable[str] | None = None
) -> dict[str, Counter[str]]:
    """Per store (of these database aliases), how many rows need each key."""
    found: dict[str, Counter[str]] = {}
    aliases = None if stores_of is None else set(stores_of)
    for store in stores(models):
        if aliases is not None and store.alias not in aliases:
            continue
        counter = found[store.name] = Counter()
        for rows in _chunks(store):
            for row in rows:
                counter.update(_ids(store, row[1]))
    return found


def missing(
    dropping: Iterable[str] = (),
    models: Iterable[Any] | None = None,
    stores_of: Iterable[str] | None = None,
) -> Counter[str]:
    """Rows that nobody could read, by the key they need, if ``dropping`` were no more."""
    kept = set(keyring.ring().ids) - set(dropping)
    total: Counter[str] = Counter()
    for counter in usage(models, stores_of).values():
        total.update({key: rows for key, rows in counter.items() if key not in kept})
    return total


NO_KEY = "(damaged)"


def _ids(store: Store, text: str) -> list[str]:
    try:
        return list(store.key_ids(text))
    except SealError:
        return [NO_KEY]


def _chunks(store: Store) -> Iterator[list[tuple[Any, ...]]]:
    """The rows with something sealed, in the order of their keys."""
    last: Any = None
    while True:
        after = f"AND {store.key} > %s" if last is not None else ""
        statement = (
            f"SELECT {store.key}, {store.value}{store.columns} FROM {store.table} "  # noqa: S608 - names of our own models
            f"WHERE {store.value} LIKE %s {after} ORDER BY {store.key} LIMIT {CHUNK}"
        )
        with connections[store.alias].cursor() as cursor:
            cursor.execute(statement, [store.like, *([] if last is None else [last])])
            rows = cursor.fetchall()
        if not rows:
            return
        yield rows
        last = rows[-1][0]


# ---- rotation


def rotate(models: Iterable[Any] | None = None) -> Generator[Portion]:
    """Every sealed value has the current key, as far as this was iterated.

    A row that does not open is named and left as it is. Rows that are written meanwhile have the
    current key already, in processes that know it.
    """
    current = keyring.ring().current
    for store in stores(models):
        yield from _rotate(store, current)


def _rotate(store: Store, current: str) -> Iterator[Portion]:
    for keys in _stale_keys(store, current):
        with transaction.atomic(using=store.alias):
            portion = _rotate_chunk(store, keys, current)
        yield portion


def _stale_keys(store: Store, current: str) -> Iterator[list[Any]]:
    for rows in _chunks(store):
        stale = [row[0] for row in rows if set(_ids(store, row[1])) - {current}]
        if stale:
            yield stale


def _rotate_chunk(store: Store, keys: list[Any], current: str) -> Portion:
    broken: list[str] = []
    changed = 0
    with connections[store.alias].cursor() as cursor:
        # Read again under a lock: somebody may have written the row since.
        cursor.execute(
            f"SELECT {store.key}, {store.value}{store.columns} FROM {store.table} "  # noqa: S608
            f"WHERE {store.key} = ANY(%s) AND {store.value} LIKE %s ORDER BY {store.key} "
            "FOR NO KEY UPDATE",
            [keys, store.like],
        )
        for row in cursor.fetchall():
            try:
                text = store.resealed(row[1], store.places(row), current)
            except SealError as error:
                broken.append(str(error))
                continue
            if text == row[1]:
                continue
            column = store.value.partition("::")[0]
            cursor.execute(
                f"UPDATE {store.table} SET {column} = %s{store.cast} WHERE {store.key} = %s",  # noqa: S608
                [text, row[0]],
            )
            changed += 1
    return Portion(store.name, changed, tuple(broken))
