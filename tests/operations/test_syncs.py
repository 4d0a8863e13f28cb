"""Syncs: complete or not at all, stopped within ten rows, deletions last and never by mistake."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jobs
from config.standins.erp.server import Erp
from jobs.context import Signal
from jobs.testing import freeze_clock, run_jobs
from operations import mirror, verbs
from operations.clock import now
from operations.models import Agent, Customer, Operation, Outcome, SyncRun, SyncState
from operations.services import syncs
from operations.sync import ExportInvalid, SyncStopped, sync_customers
from operations.sync.exports import Row
from tests.operations.factories import agent as new_agent
from tests.operations.factories import ask, order

COLUMNS = ("key", "name")
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=3)
"""What PostgreSQL can hold; a row with anything else is refused."""


class Memory:
    """Rows in memory, and an ERP whose export can be anything."""

    columns: Sequence[str] = COLUMNS
    numbers: Sequence[str] = ()

    def __init__(self, folder: Path, rows: dict[str, str]) -> None:
        self.path = folder / "one.export"
        self.erp, self.rows, self.downloads = rows, dict[str, str](), 0
        self.raw: bytes | None = None
        self.doubts, self.settled = set[str](), dict[str, str]()
        self.stored: list[int] = []

    def file(self) -> Path:
        return self.path

    def download(self) -> Iterator[bytes]:
        self.downloads += 1
        yield export(self.erp) if self.raw is None else self.raw

    def hash(self, values: dict[str, str]) -> str:
        return values["name"]

    def known(self) -> dict[str, str]:
        return dict(self.rows)

    def changed_since(self, moment: float) -> set[str]:
        return set()

    def awaited(self) -> set[str]:
        return self.doubts

    def settle(self, seen: Mapping[str, str]) -> None:
        self.settled.update(seen)

    def store(self, rows: Sequence[tuple[Row, str]]) -> tuple[int, int]:
        self.stored.append(len(rows))
        new = [row for row, _hashed in rows if row.key not in self.rows]
        self.rows.update({row.key: hashed for row, hashed in rows})
        return len(new), len(rows) - len(new)

    def delete(self, keys: Sequence[str]) -> int:
        for key in keys:
            del self.rows[key]
        return len(keys)


def export(rows: dict[str, str], columns: Sequence[str] = COLUMNS, trailer: Any = None) -> bytes:
    lines = [{"columns": list(columns)}, *([key, name] for key, name in rows.items())]
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    told = {"count": len(rows), "sha256": hashlib.sha256(text).hexdigest()}
    return text + json.dumps(told if trailer is None else trailer).encode() + b"\n"


def run(deps: Memory, stops: Iterator[bool] | None = None) -> Any:
    answers = stops or iter(lambda: False, True)
    return sync_customers(deps, "ada", lambda done, total: None, lambda: next(answers, False))


def complete(deps: Memory) -> Any:
    found = run(deps)
    deps.path.unlink()
    return found


def rows(count: int) -> dict[str, str]:
    return {f"C-{n}": f"name {n}" for n in range(count)}


def test_five_thousand_rows_stop_within_ten_and_continue_without_a_download(
    tmp_path: Path,
) -> None:
    deps = Memory(tmp_path, rows(5000))
    before = 0

    def asked() -> bool:
        return bool(deps.stored) and sum(deps.stored) >= 2000

    with pytest.raises(SyncStopped) as stopped:
        sync_customers(deps, "ada", lambda done, total: None, asked)
    before = sum(deps.stored)
    assert (stopped.value.stage, before, max(deps.stored)) == ("db-loop", 2000, 10)
    assert stopped.value.so_far.new == 2000
    complete(deps)
    assert (deps.rows, deps.downloads) == (deps.erp, 1)


@pytest.mark.parametrize("stage", ["start", "download", "parse", "db-loop"])
def test_every_stage_looks(tmp_path: Path, stage: str) -> None:
    number = {"start": 0, "download": 1, "parse": 3, "db-loop": 4}[stage]
    deps = Memory(tmp_path, rows(30))
    answers = iter([False] * number + [True])
    with pytest.raises(SyncStopped) as stopped:
        run(deps, answers)
    assert (stopped.value.stage, deps.stored) == (stage, [] if stage != "db-loop" else [10])


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (export(rows(50))[:-90], "export_truncated"),
        (b"", "export_truncated"),
        (b"<html>", "export_truncated"),
        (export(rows(50), trailer={"count": 50, "sha256": "0"}), "export_wrong_trailer"),
        (export(rows(50), columns=("key", "other")), "export_columns_changed"),
        (export(rows(50), columns=("key",)), "export_columns_changed"),
        (b"x" * 100_000, "export_line_too_long"),
    ],
)
def test_an_export_that_is_not_whole_changes_nothing(tmp_path: Path, raw: bytes, code: str) -> None:
    deps = Memory(tmp_path, rows(50))
    complete(deps)
    deps.raw = raw
    with pytest.raises(ExportInvalid) as invalid:
        run(deps)
    assert (invalid.value.code, deps.rows) == (code, rows(50))
    assert not list(tmp_path.glob("*.part"))


def test_a_complete_export_settles_what_it_shows_and_no_other(tmp_path: Path) -> None:
    deps = Memory(tmp_path, {})
    deps.doubts = {"a", "b", "c"}
    columns = [*COLUMNS, "reference"]
    lines: list[Any] = [{"columns": columns}, ["C-1", "one", "a"], ["C-2", "two", "z"],
                        ["C-3", "three", ""], ["C-4", {}, "b"]]  # fmt: skip
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    trailer = {"count": 4, "sha256": hashlib.sha256(text).hexdigest()}
    deps.raw = text
    with pytest.raises(ExportInvalid):
        run(deps)
    assert deps.settled == {}
    deps.raw = text + json.dumps(trailer).encode()
    complete(deps)
    assert deps.settled == {"a": "C-1"}  # the row of "b" is invalid
    assert deps.rows == {"C-1": "one", "C-2": "two", "C-3": "three"}


def test_what_is_suspicious_is_held(tmp_path: Path) -> None:
    deps = Memory(tmp_path, rows(40))
    complete(deps)
    deps.erp = rows(20)
    assert len(complete(deps).held) == 20 and len(deps.rows) == 40
    deps.erp = {}
    assert len(complete(deps).held) == 40 and len(deps.rows) == 40
    deps.erp = rows(30)
    assert complete(deps).deleted == 10 and deps.rows == deps.erp


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from([f"C-{n}" for n in range(40)]), TEXTS),
            st.lists(st.booleans(), max_size=12),
            st.booleans(),
        ),
        max_size=6,
    ),
    st.dictionaries(st.sampled_from([f"C-{n}" for n in range(40)]), TEXTS),
)
def test_after_any_interruptions_a_clean_run_makes_them_equal(
    tmp_path_factory: pytest.TempPathFactory,
    past: list[tuple[dict[str, str], list[bool], bool]],
    last: dict[str, str],
) -> None:
    deps = Memory(tmp_path_factory.mktemp("sync"), {})
    for erp, stops, is_whole in past:
        deps.erp = erp
        deps.raw = None if is_whole else export(erp)[:-20]
        with suppress(SyncStopped, ExportInvalid):
            run(deps, iter(stops))
    deps.erp, deps.raw = last, None
    deps.path.unlink(missing_ok=True)
    if held := run(deps).held:
        deps.delete(held)
    assert deps.rows == last


@pytest.mark.django_db
def test_every_sync_mirrors_its_part(erp: Erp, agent: Agent) -> None:
    ask("submit-order", order())
    run_jobs(["erp-write"])
    new_agent("service-account")
    for type in ("order-states", "customers", "orders", "ddt", "invoices"):
        verbs.sync_now("ada", f"sync-{type}", by="tests")
        run_jobs(["erp-sync"])
    for type in ("products", "prices"):
        verbs.sync_now("service-account", f"sync-{type}", by="tests")
    run_jobs(["erp-sync"])
    found = dict(SyncRun.objects.values_list("type", "processed"))
    assert found == {
        "sync-order-states": 1, "sync-customers": 30, "sync-orders": 1, "sync-ddt": 1,
        "sync-invoices": 1, "sync-products": 40, "sync-prices": 40,
    }  # fmt: skip
    assert set(SyncRun.objects.values_list("outcome", flat=True)) == {"done"}
    assert Customer.objects.get(key="C-0001").values["name"] == "Customer 1"


def sync(erp: Erp, *faults: str) -> SyncRun:
    erp.script("ada", *faults)
    made = verbs.sync_now("ada", "sync-customers", by="tests")
    with freeze_clock() as clock:
        for _ in range(4):
            run_jobs(["erp-sync"])
            clock.tick(200)
    return SyncRun.objects.get(pk=made)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "fault", ["truncated", "wrong_trailer", "changed_columns", "duplicated", "one_line"]
)
def test_a_bad_export_fails_the_run_with_its_code(erp: Erp, agent: Agent, fault: str) -> None:
    sync(erp)
    found = sync(erp, fault)
    assert found.outcome == Outcome.FAILED and found.error_code.startswith("export_")
    assert Customer.objects.filter(deleted_at=None).count() == 30
    assert Operation.objects.get(pk=found.pk).phase == "failed"
    assert SyncState.objects.get().failures == 1


@pytest.mark.django_db
def test_a_preempted_run_counts_what_it_has_done_before(
    erp: Erp, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[Signal] = []
    counts: list[int] = []
    store = mirror.Store.store

    def storing(self: mirror.Store, rows: Any) -> tuple[int, int]:
        counts.append(SyncRun.objects.get().new)
        return store(self, rows)

    def reason(signal: Signal) -> str:
        first.append(signal)
        return "preempted" if counts and signal is first[0] else ""

    monkeypatch.setattr(mirror.Store, "store", storing)
    monkeypatch.setattr(Signal, "reason", property(reason))
    monkeypatch.setattr(Signal, "aborted", property(lambda signal: reason(signal) != ""))
    made = verbs.sync_now("ada", "sync-customers", by="tests")
    run_jobs(["erp-sync"])
    assert counts == [0, 10, 10]
    found = SyncRun.objects.get(pk=made)
    assert (found.outcome, found.new, found.processed, found.downloads) == ("done", 30, 30, 1)


@pytest.mark.django_db
def test_held_deletions_are_allowed_rejected_or_replaced(erp: Erp, agent: Agent) -> None:
    sync(erp)
    held = sync(erp, "empty")
    assert (held.outcome, len(held.held)) == (Outcome.HELD, 30)
    verbs.reject(held.pk, by="tests", reason="the export was empty")
    held = sync(erp, "empty")
    again = sync(erp)
    held.refresh_from_db()
    assert (held.outcome, again.outcome) == (Outcome.REPLACED, Outcome.DONE)
    held = sync(erp, "empty")
    assert verbs.allow(held.pk, by="tests", reason="they are gone") == 30
    assert not Customer.objects.filter(deleted_at=None).exists()


@pytest.mark.django_db
def test_rows_that_change_or_come_back_can_be_read(erp: Erp, agent: Agent) -> None:
    sync(erp)
    erp.book.data["customers"]["C-0001"]["name"] = "Another name"
    gone = erp.book.data["customers"].pop("C-0002")
    assert (sync(erp).updated, Customer.objects.filter(deleted_at=None).count()) == (1, 29)
    erp.book.data["customers"]["C-0002"] = gone
    sync(erp)
    mirrored = {row.key: row.values["name"] for row in Customer.objects.filter(deleted_at=None)}
    assert mirrored == {key: row["name"] for key, row in erp.book.data["customers"].items()}


@pytest.mark.django_db
def test_a_bad_row_is_recorded_and_keeps_its_old_version(erp: Erp, agent: Agent) -> None:
    sync(erp)
    found = sync(erp, "bad_row")
    assert (found.outcome, found.rejected_count, found.deleted) == (Outcome.DONE, 1, 0)
    assert found.rejected[0][0] == 1 and "name" in found.rejected[0][1]
    assert Customer.objects.get(key="C-0000").values["name"] == "Customer 0"


@pytest.mark.parametrize(
    ("name", "columns"),
    [("\ud800", ("name",)), ("a\x00b", ("name",)), ([], ("name",)), (None, ("name",))],
)
def test_a_row_that_cannot_be_stored_is_rejected(
    tmp_path: Path, name: Any, columns: tuple[str, ...]
) -> None:
    deps = Memory(tmp_path, {"C-1": "one", "C-2": name})
    found = complete(deps)
    assert (deps.rows, found.rejected) == ({"C-1": "one"}, [(2, columns)])


def test_a_line_without_end_or_with_deep_lists_is_rejected(tmp_path: Path) -> None:
    deps = Memory(tmp_path, {})
    text = json.dumps({"columns": COLUMNS}).encode() + b"\n" + b"[" * 50_000 + b"\n"
    trailer = {"count": 1, "sha256": hashlib.sha256(text).hexdigest()}
    deps.raw = text + json.dumps(trailer).encode()
    assert complete(deps).rejected == [(1, ("*",))]


@pytest.mark.django_db
def test_three_failures_pause_a_sync_and_syncing_by_hand_ends_the_pause(
    erp: Erp, agent: Agent
) -> None:
    for _ in range(3):
        sync(erp, "truncated")
    state = SyncState.objects.get()
    assert state.paused_until is not None
    assert timedelta(minutes=100) < state.paused_until - now() < timedelta(hours=3)
    sync(erp)
    assert SyncState.objects.get().paused_until is None


@pytest.mark.django_db
def test_the_scheduler_enqueues_the_stalest_first_and_spares_the_offline(
    erp: Erp, agent: Agent
) -> None:
    assert syncs.schedule() == 0
    Agent.objects.update(last_seen_at=now())
    new_agent("service-account")
    assert syncs.schedule() == 7
    assert syncs.schedule() == 0
    assert run_jobs(["erp-sync"]).failed == 0
    for _ in range(8):
        run_jobs(["erp-sync"])
    with freeze_clock() as clock:
        clock.tick(timedelta(minutes=6))
        assert syncs.schedule() == 1
        assert Operation.objects.latest("created_at").type == "sync-order-states"
        verbs.stop("ada", by="tests", reason="a test")
        ask("submit-order", order())
        assert syncs.schedule() == 0
        Operation.objects.filter(type="submit-order").update(phase="failed")
        clock.tick(timedelta(hours=30))
        assert syncs.schedule() == 0


@pytest.mark.django_db
def test_a_sync_joins_the_one_that_waits(erp: Erp, agent: Agent) -> None:
    first = verbs.sync_now("ada", "sync-customers", by="tests")
    assert verbs.sync_now("ada", "sync-customers", by="tests") == first
    job = jobs.get(first)
    assert (job.queue, job.priority) == ("erp-sync", 40)
