"""Real workers against the ERP that die or run out of time at any step of a write."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operations.factories import order
from tests.operations.office import Office

pytestmark = pytest.mark.slow

STEPS = [
    (f"operations.{step}", when)
    for step in (
        "running.begin", "running.login", "clients.erp.id_of", "writes._save", "writes._read_back",
        "writes._compare", "writes._finish",
    )
    for when in ("before", "after")
]  # fmt: skip


def test_a_worker_that_dies_anywhere_makes_one_order(office: Office, tmp_path: Path) -> None:
    """One order a step, and the worker dies before or after it: no person is needed."""
    marks = {(point, when): tmp_path / f"{point}-{when}" for point, when in STEPS}
    for mark in marks.values():
        mark.touch()
    office.dispatcher()
    office.worker(crash=",".join(f"{point}|{when}|{m}" for (point, when), m in marks.items()))
    for number, mark in enumerate(marks.values(), 1):
        mark.unlink()  # from now on, it kills
        [id] = office.ask(("ada", "submit-order", order(f"P-{number}")))
        office.await_phase(id, "completed")
        assert mark.exists()
        assert office.orders == number
    assert office.overlaps() == []


def test_a_write_that_times_out_anywhere_ends_truly(office: Office, tmp_path: Path) -> None:
    """A step takes longer than the attempt has: the end says whether the ERP has the order."""
    office.settings["TIMEOUTS"] = {"submit-order": 8}
    marks = {(point, when): tmp_path / f"{point}-{when}" for point, when in STEPS}
    office.dispatcher()
    office.worker(
        crash=",".join(f"{point}|{when}|{m}|11" for (point, when), m in marks.items()),
        concurrency=len(STEPS) + 1,
    )
    # One that meets no mark has passed every step, so all marks were met.
    ids = office.ask(
        *((f"agent-{n}", "submit-order", order(f"P-{n}")) for n in range(len(STEPS) + 1))
    )
    ends = [office.await_phase(id, "completed", "failed") for id in ids]
    assert all(mark.exists() for mark in marks.values())
    for id, end in zip(ids, ends, strict=True):
        assert office.is_saved(id) == (end == "completed"), office.steps(id)
        assert end == "completed" or office.told(id)[1] == "timeout"
    assert office.orders == ends.count("completed")
    assert "failed" in ends and "completed" in ends
