"""Tokens that have to be refreshed: once, however many processes find that one is stale."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from django.db import connections, models, router, transaction

from jobs.errors import InvalidOption

M = TypeVar("M", bound=models.Model)


def refresh_once(
    row: M, call: Callable[[M], Mapping[str, Any]], *, fields: Collection[str]
) -> bool:
    """Refresh the token that ``fields`` of the row hold, unless another process just has.

    ``call`` is given the row, locked and fresh, asks the provider, and returns new values by
    field; those that are None or empty leave what is there. They are committed when this returns,
    and ``row`` has them, too. Return False, without a call, if the token in the database is not
    the one that ``row`` has: then ``row`` has the newer one now. If the call raises, or its answer
    is lost, the old token stays.

    The row is locked during the call, which therefore needs a short ``total``. It must not happen
    inside a transaction, whose rollback would lose a token that the provider has replaced.
    """
    names = _checked(row, fields)
    alias = row._state.db or router.db_for_write(type(row), instance=row)
    _check_outside(alias)
    rows = type(row)._base_manager.using(alias).select_for_update(no_key=True)
    with transaction.atomic(using=alias):
        locked = rows.get(pk=row.pk)
        is_stale = all(getattr(locked, name) == getattr(row, name) for name in names)
        if is_stale:
            _write(locked, call(locked), names)
    for name in names:
        setattr(row, name, getattr(locked, name))
    return is_stale


def _check_outside(alias: str) -> None:
    blocks = connections[alias].atomic_blocks
    if any(not getattr(block, "_from_testcase", False) for block in blocks):
        raise InvalidOption("row", "cannot be refreshed inside a transaction")


def _write(locked: models.Model, found: Mapping[str, Any], names: Collection[str]) -> None:
    for name in found:
        if name not in names:
            raise InvalidOption("call", f"returned {name!r}, which is not among the fields")
    changed = {name: value for name, value in found.items() if value not in (None, "", b"")}
    for name, value in changed.items():
        setattr(locked, name, value)
    if changed:
        locked.save(update_fields=list(changed))


def _checked(row: models.Model, fields: Collection[str]) -> list[str]:
    if isinstance(fields, str) or not fields:
        raise InvalidOption("fields", "must name the fields that hold the token")
    known = {field.name for field in row._meta.concrete_fields}
    for name in fields:
        if name not in known:
            raise InvalidOption("fields", f"{type(row).__name__} has no field {name!r}")
    return list(fields)
