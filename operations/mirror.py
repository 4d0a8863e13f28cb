"""Writing to the mirror; callers open the transaction and fence it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

import jobs
from jobs.fields import blind_index
from operations.clients import LONGEST_ID
from operations.config import settings
from operations.models import (
    MIRROR,
    Customer,
    Mirror,
    Operation,
    Order,
    OrderArticle,
    OrderState,
    Phase,
)
from operations.sync.exports import Row
from operations.table import OPERATIONS

Saved = Callable[[str, str], None]
"""Decides that the ERP has a write: its reference, and its number."""
KEPT = 3600
"""Seconds for which an export of an unfinished sync is kept."""


def hash_of(agent: str, values: dict[str, Any]) -> str:
    """Return the keyed hash of a row."""
    return blind_index(json.dumps(values, sort_keys=True), "operations.mirror", agent)


def put(model: type[Mirror], agent: str, key: str, values: dict[str, Any], old: str = "") -> None:
    """Insert or update a row; one with the ``old`` key becomes this row."""
    rows = {row.key: row for row in model.objects.select_for_update().filter(
        agent_id=agent, key__in=[key, old] if old else [key])}  # fmt: skip
    row = rows.get(key) or rows.get(old) or model(agent_id=agent)
    if old in rows and rows[old] is not row:
        rows[old].delete()
    known = row.values if isinstance(row.values, dict) else {}
    row.key, row.deleted_at, row.values = key, None, {**known, **values}
    row.row_hash = hash_of(agent, row.values)
    row.save()


def remove(model: type[Mirror], agent: str, keys: Sequence[str]) -> int:
    """Mark rows as deleted."""
    rows = model.objects.filter(agent_id=agent, key__in=list(keys), deleted_at=None)
    return int(rows.update(deleted_at=timezone.now(), changed_at=timezone.now()))


def put_order(agent: str, id: str, seen: dict[str, Any], old: str = "") -> None:
    """Store an order as the ERP shows it, with its lines."""
    values = {name: str(seen[name]) for name in Order.columns[1:] if name in seen}
    put(Order, agent, id, {"orderId": id, **values}, old)
    put(OrderState, agent, id, {"orderId": id, "state": values.get("state", "")})
    put_lines(agent, id, seen.get("lines", []))


def put_lines(agent: str, order: str, lines: Sequence[dict[str, Any]]) -> None:
    """Replace the lines of an order."""
    OrderArticle.objects.filter(agent_id=agent, key__startswith=f"{order}:").delete()
    rows = ((f"{order}:{number}", dict(line)) for number, line in enumerate(lines, 1))
    OrderArticle.objects.bulk_create(
        OrderArticle(agent_id=agent, key=key, values=values, row_hash=hash_of(agent, values))
        for key, values in rows
    )


def store_write(row: Operation, data: dict[str, Any], seen: dict[str, Any] | None) -> None:
    """Store what a write has changed, as the ERP shows it."""
    agent = row.agent_id
    if seen is None:
        remove_temporary(row)  # a person has accepted that the ERP has it no more
    if row.type == "submit-order" and seen is not None:
        put_order(agent, row.erp_id, seen, row.temporary_id)
    elif row.type == "create-customer" and seen is not None:
        values = {name: str(seen.get(name, "")) for name in Customer.columns[1:]}
        values |= {name: str(data[name]) for name in data}
        put(Customer, agent, row.erp_id, {"customerProfile": row.erp_id, **values},
            row.temporary_id)  # fmt: skip
    elif row.type == "update-customer":
        put(Customer, agent, data["customerProfile"], data)
    elif row.type == "delete-order":
        for model in (OrderState, Order):
            remove(model, agent, [data["orderId"]])
        OrderArticle.objects.filter(agent_id=agent, key__startswith=f"{data['orderId']}:").delete()
    elif seen is not None:
        put_order(agent, data["orderId"], seen)
        if row.type == "send-to-verona":
            moment = timezone.now().isoformat()
            put(Order, agent, data["orderId"], {"sent_to_verona_at": moment})


def put_temporary(row: Operation) -> None:
    """Show what is to be created under its temporary id."""
    if row.type == "submit-order":
        values = {"orderId": row.temporary_id, "customerId": row.data["customerId"],
                  "state": "pending"}  # fmt: skip
        put(Order, row.agent_id, row.temporary_id, values)
    elif row.type == "create-customer":
        values = {"customerProfile": row.temporary_id, "name": row.data["name"]}
        put(Customer, row.agent_id, row.temporary_id, values)


def remove_temporary(row: Operation) -> None:
    """Remove what was not created."""
    for model in (Order, Customer):
        remove(model, row.agent_id, [row.temporary_id])


class Store:
    """The rows and the export of one run of a sync."""

    def __init__(self, ctx: jobs.Context, row: Operation, export: Any, saved: Saved) -> None:
        self._ctx, self._row, self._export, self._saved = ctx, row, export, saved
        self._model = MIRROR[row.type]
        self.columns: Sequence[str] = self._model.columns
        self.numbers: Sequence[str] = self._model.numbers
        self._known: dict[str, str] = {}
        self._kept: set[str] = set()

    def file(self) -> Path:
        """Return the file of this job's export; one that is an hour old is deleted."""
        path = export_of(self._row)
        if path.exists() and time.time() - path.stat().st_mtime > KEPT:
            path.unlink(missing_ok=True)
        return path

    def download(self) -> Iterator[bytes]:
        """Log in and download the export."""
        yield from self._export()

    def hash(self, values: dict[str, str]) -> str:
        """Return the keyed hash of a row."""
        return hash_of(self._row.agent_id, values)

    def _rows(self) -> Any:
        return self._model.objects.filter(agent_id=self._row.agent_id)

    def known(self) -> dict[str, str]:
        """Return the hashes of the rows that the ERP had, by key."""
        rows = list(self._rows().values_list("key", "row_hash", "deleted_at"))
        self._kept = {key for key, _hashed, _deleted in rows}
        self._known = {
            key: hashed for key, hashed, deleted in rows
            if deleted is None and not key.startswith("TEMP-")
        }  # fmt: skip
        return self._known

    def changed_since(self, moment: float) -> set[str]:
        """Return the keys of rows that were changed after the export was made."""
        since = datetime.fromtimestamp(moment, UTC)
        return set(self._rows().filter(changed_at__gt=since).values_list("key", flat=True))

    def awaited(self) -> set[str]:
        """Return the ids of writes in doubt whose rows may be in this export."""
        types = [one.type for one in OPERATIONS.values() if one.resync == self._row.type]
        doubts = Operation.objects.filter(
            agent_id=self._row.agent_id, type__in=types, phase=Phase.IN_DOUBT
        )  # fmt: skip
        return {str(id) for id in doubts.values_list("pk", flat=True)}

    def settle(self, seen: Mapping[str, str]) -> None:
        """Let the writes be finished that the ERP turns out to have."""
        for reference, key in seen.items():
            if len(key) <= LONGEST_ID:
                self._saved(reference, key)

    def _ids(self, keys: Sequence[str]) -> dict[str, uuid.UUID]:
        """Return the ids of rows that exist, for which their values have to be sealed."""
        kept = [key for key in keys if key in self._kept]
        return dict(self._rows().filter(key__in=kept).values_list("key", "pk")) if kept else {}

    def store(self, rows: Sequence[tuple[Row, str]]) -> tuple[int, int]:
        """Store rows in one transaction, while this attempt holds the job."""
        agent = self._row.agent_id
        with transaction.atomic():
            self._ctx.fence()
            ids = self._ids([row.key for row, _hashed in rows])
            self._model.objects.bulk_create(
                [
                    self._model(
                        id=ids.get(row.key) or uuid.uuid4(), agent_id=agent, key=row.key,
                        values=row.values, row_hash=hashed,
                    )
                    for row, hashed in rows
                ],
                update_conflicts=True, unique_fields=["agent", "key"],
                update_fields=["values", "row_hash", "changed_at", "deleted_at"],
            )  # fmt: skip
        updated = sum(row.key in self._known for row, _hashed in rows)
        return len(rows) - updated, updated

    def delete(self, keys: Sequence[str]) -> int:
        """Mark rows as deleted in one transaction, while this attempt holds the job."""
        with transaction.atomic():
            self._ctx.fence()
            return remove(self._model, self._row.agent_id, keys)


def export_of(row: Operation) -> Path:
    """Return the file of a sync's export."""
    return settings().exports() / f"{row.pk}.export"


def forget_export(row: Operation) -> None:
    """Delete the export of a sync that has ended, also one whose download was cut short."""
    path = export_of(row)
    for one in (path, path.with_suffix(".part")):
        one.unlink(missing_ok=True)
