"""One run of a sync: download, parse, store in small transactions, delete last."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from operations.sync.exports import ExportInvalid, Row, read, save

CHUNK = 10
"""Rows of a transaction."""
REJECTED_SHOWN = 100
FEW = 20
SUSPICIOUS = 0.3
"""A larger share of the rows is not deleted without a person, if there are more than a few."""

Progress = Callable[[int, int], object]


class Deps(Protocol):
    """What a run needs: an export, and the rows that it keeps up to date."""

    columns: Sequence[str]
    numbers: Sequence[str]

    def file(self) -> Path:
        """Return where the export is kept until the run is complete."""

    def download(self) -> Iterator[bytes]:
        """Download the export."""

    def hash(self, values: dict[str, str]) -> str:
        """Return the hash of a row."""

    def known(self) -> dict[str, str]:
        """Return the hashes of the rows that exist, by key."""

    def changed_since(self, moment: float) -> set[str]:
        """Return the keys of rows that were changed after a moment."""

    def awaited(self) -> Collection[str]:
        """Return the references of operations that are in doubt."""

    def settle(self, seen: Mapping[str, str]) -> None:
        """Decide operations in doubt: the ERP has these references, under these keys."""

    def store(self, rows: Sequence[tuple[Row, str]]) -> tuple[int, int]:
        """Store rows in one transaction; return how many were new and how many were updated."""

    def delete(self, keys: Sequence[str]) -> int:
        """Delete rows in one transaction."""


@dataclass(slots=True)
class Result:
    """What a run has done."""

    processed: int = 0
    new: int = 0
    updated: int = 0
    deleted: int = 0
    downloads: int = 0
    rejected: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    rejected_count: int = 0
    held: list[str] = field(default_factory=list)


class SyncStopped(Exception):
    """The run was asked to stop, and has stopped at this stage, after what it has done so far."""

    def __init__(self, stage: str, so_far: Result) -> None:
        self.stage, self.so_far = stage, so_far
        super().__init__(stage)


def run(
    deps: Deps, agent: str, on_progress: Progress, should_stop: Callable[[], bool]
) -> Result:  # fmt: skip
    """Make the rows equal to the export; raise SyncStopped or ExportInvalid."""
    found = Result()

    def look(stage: str) -> None:
        if should_stop():
            raise SyncStopped(stage, found)

    def pieces() -> Iterator[bytes]:
        for piece in deps.download():
            look("download")
            yield piece

    look("start")
    path = deps.file()
    if not path.exists():
        found.downloads += 1
        save(pieces(), path, time.time())
    look("download")
    settled: dict[str, str] = {}
    seen = _parse(deps, path, settled)
    look("parse")
    if settled:
        deps.settle(settled)
    fresh = deps.changed_since(path.stat().st_mtime)
    known = deps.known()
    _store(deps, path, known, fresh, found, on_progress, look, len(seen))
    missing = sorted(set(known) - set(seen) - fresh)
    if missing and _is_suspicious(len(missing), len(known), seen):
        found.held = missing
        return found
    for begin in range(0, len(missing), CHUNK):
        look("delete")
        found.deleted += deps.delete(missing[begin : begin + CHUNK])
    return found


def _parse(deps: Deps, path: Path, settled: dict[str, str]) -> dict[str, int]:
    """Return the keys of the export; one that cannot be read counts as an empty key.

    Add the keys of the rows whose references are awaited.
    """
    seen: dict[str, int] = {}
    awaited = deps.awaited()
    for row in read(path, deps.columns, deps.numbers):
        if row.key and row.key in seen:
            raise ExportInvalid("export_duplicated")
        seen[row.key] = row.number
        if row.reference in awaited:
            settled[row.reference] = row.key
    return seen


def _store(
    deps: Deps, path: Path, known: dict[str, str], fresh: set[str], found: Result,
    on_progress: Progress, look: Callable[[str], None], total: int,
) -> None:  # fmt: skip
    waiting: list[tuple[Row, str]] = []

    def flush() -> None:
        if waiting:
            new, updated = deps.store(waiting)
            found.new, found.updated = found.new + new, found.updated + updated
            waiting.clear()

    for row in read(path, deps.columns, deps.numbers):
        if found.processed and found.processed % CHUNK == 0:
            look("db-loop")
            on_progress(found.processed, total)
        found.processed += 1
        if row.invalid:
            found.rejected_count += 1
            if len(found.rejected) < REJECTED_SHOWN:
                found.rejected.append((row.number, row.invalid))
            continue
        hashed = deps.hash(row.values)
        if row.key not in fresh and known.get(row.key) != hashed:
            waiting.append((row, hashed))
            if len(waiting) == CHUNK:
                flush()
    look("db-loop")
    flush()
    on_progress(found.processed, total)


def _is_suspicious(missing: int, known: int, seen: dict[str, int]) -> bool:
    return not seen or "" in seen or (known >= FEW and missing > SUSPICIOUS * known)


sync_order_states = sync_customers = sync_orders = sync_ddt = run
sync_invoices = sync_products = sync_prices = run
SYNCS = {
    "sync-order-states": sync_order_states, "sync-customers": sync_customers,
    "sync-orders": sync_orders, "sync-ddt": sync_ddt, "sync-invoices": sync_invoices,
    "sync-products": sync_products, "sync-prices": sync_prices,
}  # fmt: skip
"""The function of each sync; they differ in what they are given as ``deps``."""
