"""A test for each sentence of the pipeline's specification, quoted."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from django.db import transaction
from django.urls import resolve

import jobs
from fileproc import flow, states
from fileproc.models import Batch, Chunk, File, FileStatus, Stage, StageRun
from fileproc.payloads import (
    STAGES,
    BatchCompleted,
    BatchProgress,
    Chunking,
    Embed,
    Extract,
    RetryAll,
)
from fileproc.services import announcing, batches, confirming, retrying, search
from jobs import blobs, registry
from jobs.models import DeadLetter, Dependency, Job
from jobs.retention import Keep
from jobs.testing import emitted, fail_next, run_jobs
from tests.fileproc import documents
from tests.fileproc.caller import program, user
from tests.fileproc.conftest import process, upload

pytestmark = pytest.mark.django_db
WHOLE = ["uploaded", "queued", "extracting", "chunking", "embedding", "ready"]


def moves() -> list[str]:
    return [event.payload["to"] for event in emitted("file:status-changed")]


def options(payload: type[jobs.Payload]) -> registry.Handler:
    return registry.get(str(payload.kind))


# ---- what was wrong


def test_no_file_is_queued_without_its_jobs() -> None:
    """ "No atomic state transitions during poll → enqueue flow"."""
    batch = batches.create("user:1", 1)
    made = batches.register("user:1", batch.pk, announcing.Announced("a.txt", 5))
    assert made.file is not None
    blobs.store().write(made.file.blob_key, b"words")
    heads = confirming.heads("user:1", batch.pk, [made.file.pk])
    arrival = confirming.Arrival(made.file.pk)
    with pytest.raises(RuntimeError), transaction.atomic():
        confirming.confirm("user:1", batch.pk, [arrival], heads, by="tests")
        assert Job.objects.filter(kind="fileproc.extract").exists()
        raise RuntimeError("the process dies")
    assert File.objects.get().status == "registered"
    assert not Job.objects.filter(kind="fileproc.extract").exists()


def test_processing_is_triggered_by_the_confirmation() -> None:
    """ "No scheduler. No polling. No race conditions."."""
    upload(("a.txt", b"words"))
    job = Job.objects.get(kind="fileproc.extract")
    assert job.state == "pending" and job.run_at <= job.created_at


@pytest.mark.slow
def test_a_rate_delays_jobs_and_drops_none() -> None:
    """ "Silently rejects jobs when rate limited", which must not happen."""
    files = upload(*[(f"{n}.txt", f"words {n}".encode()) for n in range(52)])
    process(6)
    assert File.objects.filter(status="ready").count() == len(files)


# ---- the flow


def test_extract_completes_then_chunk_starts_then_embed() -> None:
    """ "`extract` completes → `chunk` starts → `chunk` completes → `embed` starts"."""
    [file] = upload(("a.txt", b"words"))
    runs = dict(StageRun.objects.values_list("stage", "job_id"))
    edges = set(Dependency.objects.values_list("parent_id", "child_id"))
    assert edges == {
        (runs["extract"], runs["chunk"]), (runs["chunk"], runs["embed"]),
    }  # fmt: skip
    waiting = dict(Job.objects.filter(pk__in=runs.values()).values_list("kind", "state"))
    assert waiting == {
        "fileproc.extract": "pending", "fileproc.chunk": "blocked", "fileproc.embed": "blocked",
    }  # fmt: skip
    process(4)
    assert moves() == WHOLE and file.batch_id == Batch.objects.get().pk


@pytest.mark.parametrize(
    ("payload", "queue", "delays"),
    [(Extract, "file-extract", (5, 10)), (Chunking, "file-chunk", (3, 6)),
     (Embed, "file-embed", (3, 6))],
)  # fmt: skip
def test_attempts_and_backoff(payload: Any, queue: str, delays: tuple[int, int]) -> None:
    """ "attempts: 3, backoff: { type: 'exponential', delay: 5000 }", and 3000 twice."""
    found = options(payload)
    assert (found.queue, found.max_attempts) == (queue, 3)
    assert tuple(found.backoff.delay(n) for n in (1, 2)) == delays


@pytest.mark.parametrize(
    ("payload", "at_once", "rate"), [(Extract, 8, 100), (Chunking, 5, 50), (Embed, 5, 50)]
)
def test_concurrency_and_rates(payload: Any, at_once: int, rate: int) -> None:
    """ "concurrency: 8, max: 100, duration: 60000", and 5 with 50 twice."""
    limit = options(payload).limit
    assert limit is not None and limit.at_once == at_once
    assert limit.rate is not None and limit.rate.per_second * 60 == pytest.approx(rate)


def test_one_owner_leaves_slots_to_others() -> None:
    """An owner with large documents holds at most half of the slots, rounded up."""
    upload(("a.txt", b"words"), owner="acme")
    keys = dict(Job.objects.filter(tenant="acme").values_list("kind", "limit_key"))
    for payload, most in ((Extract, 4), (Embed, 3)):
        limit = options(payload).per_key
        assert limit is not None and limit.at_once == most
        assert keys[str(payload.kind)] == "acme"


def test_the_queues_have_their_names() -> None:
    """ "BATCH_COMPLETION: 'batch-completion', DLQ: 'dead-letter-queue'"."""
    assert options(BatchCompleted).queue == options(BatchProgress).queue == "batch-completion"
    retries = options(RetryAll)
    assert retries.queue == "dead-letter-queue"
    assert retries.limit is not None and retries.limit.at_once == 1


@pytest.mark.parametrize("payload", STAGES.values())
def test_finished_jobs_are_kept_by_number(payload: Any) -> None:
    """ "removeOnComplete: { count: 100 }, removeOnFail: { count: 500 }"."""
    found = options(payload)
    assert isinstance(found.keep_completed, Keep) and isinstance(found.keep_failed, Keep)
    assert (found.keep_completed.last, found.keep_failed.last) == (100, 500)


# ---- states


def test_a_worker_that_finds_another_state_does_nothing() -> None:
    """ "Abort safely — another worker is handling this"."""
    [file] = upload(("a.txt", b"words"))
    process(4)
    before = Chunk.objects.count(), len(moves())
    flow.enqueue([File.objects.get(pk=file.pk)], Stage.CHUNK)
    process(2)
    assert (Chunk.objects.count(), len(moves())) == before


@pytest.mark.parametrize("state", FileStatus.values)
def test_no_state_moves_to_itself(state: str) -> None:
    """ "Atomic transition: chunking → chunking" is no claim: two workers would pass."""
    assert state not in states.files.ways(state)


def test_the_second_attempt_takes_over_the_state_of_the_first() -> None:
    """ "extracting → (retry) → extracting → (retry succeeds) → chunking"."""
    with fail_next(Extract, RuntimeError("planned"), times=2):
        [file] = upload(("a.txt", b"words"))
        process(4)
    assert moves() == WHOLE
    assert file.runs.get(stage="extract").attempts in (1, 3)


def test_after_three_attempts_it_has_failed_and_is_a_dead_letter() -> None:
    """ "all retries exhausted → failed + DLQ entry created"."""
    upload(("a.pdf", b"%PDF-1.4 broken"))
    process(5)
    assert moves() == ["uploaded", "queued", "extracting", "failed"]
    letter = DeadLetter.objects.get()
    assert (letter.kind, letter.state) == ("fileproc.extract", "open")


def test_a_retry_of_a_dead_letter_begins_at_queued() -> None:
    """ "failed → (admin triggers DLQ retry) → queued → (extract worker) → extracting"."""
    [file] = upload(("a.pdf", b"%PDF-1.4 broken"))
    process(5)
    retrying.retry("user:1", file.pk, by="ana")
    process(1)
    assert moves()[3:6] == ["failed", "queued", "extracting"]


def test_one_failed_file_does_not_hold_its_batch_up() -> None:
    """ "Batch completion event fires when all files reach terminal state"."""
    upload(("a.txt", b"words"), ("b.pdf", b"%PDF-1.4 broken"), ("c.txt", b"more"))
    process(5)
    [done] = emitted("batch:completed")
    assert done.payload["summary"] == {"total": 3, "ready": 2, "failed": 1}


# ---- dead letters


def test_an_entry_has_its_members() -> None:
    """ "interface DLQEntry"."""
    ana = user("ana")
    file = ana.upload("a.pdf", b"%PDF-1.4 broken")
    process(5)
    [entry] = ana("GET", "/dlq?limit=50&offset=0").data["entries"]
    wanted = {"fileId", "batchId", "stage", "error", "attempts", "failedAt", "retriedAt",
              "retriedBy", "stack"}  # fmt: skip
    assert wanted <= set(entry)
    assert (entry["fileId"], entry["stage"], entry["attempts"]) == (file, "extracting", 3)


@pytest.mark.parametrize("is_staff", [True, False])
def test_the_stack_of_an_entry_is_for_the_staff(is_staff: bool) -> None:
    """ "stack?: string"."""
    file = user("ana").upload("a.pdf", b"%PDF-1.4 broken")
    process(5)
    owner = File.objects.get(pk=file).owner
    caller = program(owner, is_staff=is_staff)
    [entry] = caller("GET", "/dlq").data["entries"]
    if is_staff:
        assert "fileproc/handlers.py" in entry["stack"] and "DAMAGED" in entry["stack"]
    else:
        assert entry["stack"] is None


def test_who_has_retried_stays_on_record() -> None:
    """ "retriedAt: new Date().toISOString(), retriedBy"."""
    ana = user("ana")
    file = ana.upload("a.pdf", b"%PDF-1.4 broken")
    process(5)
    assert ana("POST", f"/dlq/{file}/retry").data == {"success": True}
    process(5)
    [entry] = ana("GET", "/dlq").data["entries"]
    assert entry["retriedAt"] and entry["retriedBy"]


def test_all_are_retried_at_once() -> None:
    """ "Retry all failed files in DLQ"."""
    ana = user("ana")
    for n in range(3):
        ana.upload(f"{n}.pdf", b"%PDF-1.4 broken " + str(n).encode())
    process(5)
    told = ana("POST", "/dlq/retry-all", {}).data
    assert told == {"retried": 3, "failed": 0, "remaining": 0}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "dlq"), ("POST", "dlq/00000000-0000-0000-0000-000000000000/retry"),
     ("POST", "dlq/retry-all"), ("GET", "health"), ("GET", "dashboard")],
)  # fmt: skip
def test_the_endpoints_are_where_they_are_promised(method: str, path: str) -> None:
    """ "GET /api/v2/uploads/dlq", "POST /api/v2/uploads/dlq/:fileId/retry" …"."""
    assert resolve(f"/api/v2/uploads/{path}").url_name
    body: dict[str, Any] | None = {} if method == "POST" else None
    assert user("ana")(method, f"/{path}", body).status_code in (200, 404)


# ---- events


MEMBERS = {
    "file:status-changed": {"fileId", "from", "to", "batchId"},
    "batch:progress": {
        "batchId", "total", "queued", "extracting", "chunking", "embedding", "ready", "failed",
    },
    "batch:completed": {"batchId", "summary", "revision"},
}  # fmt: skip


@pytest.mark.parametrize("topic", MEMBERS)
def test_events_have_their_members(topic: str) -> None:
    """ "Real-time events are emitted at each state transition"."""
    upload(("a.txt", b"words"))
    process(4)
    told = emitted(topic)
    assert told
    extra = {"chunkCount", "error"} if topic == "file:status-changed" else set()
    for event in told:
        assert MEMBERS[topic] <= set(event.payload) <= MEMBERS[topic] | extra


def test_chunks_are_counted_in_the_event_and_errors_named() -> None:
    """ "error?: string; chunkCount?: number"."""
    upload(("a.txt", b"words"), ("b.pdf", b"%PDF-1.4 broken"))
    process(5)
    told = {event.payload["to"]: event.payload for event in emitted("file:status-changed")}
    assert told["embedding"]["chunkCount"] == 1 and told["failed"]["error"] == "DAMAGED"


def test_a_lost_worker_is_told_with_the_stage_and_the_retry() -> None:
    """ "Users notified when jobs stall and are being retried"."""
    from fileproc.chores import _stalled

    [file] = upload(("a.txt", b"words"))
    run = file.runs.get(stage="chunk")
    event: Any = type("Event", (), {})()
    event.payload, event.key = {"kind": "fileproc.chunk"}, f"job:{run.job_id}"
    _stalled(event)
    [told] = emitted("file:processing-stalled")
    assert told.payload["stage"] == "chunking" and told.payload["fileId"] == str(file.pk)
    assert told.payload["retryCount"] == 0 and told.tenant == "user:1"


# ---- what must come out


@pytest.mark.parametrize("count", [25])
def test_25_files_reach_a_terminal_state(count: int) -> None:
    """ "25-file test → 25 files reach terminal state (`ready` or `failed`)"."""
    good = [(f"{n}.pdf", documents.pdf(f"Lamp {n}")) for n in range(count - 5)]
    upload(*good, *[(f"bad{n}.pdf", b"%PDF-1.4 broken " + bytes([65 + n])) for n in range(5)])
    process(5)
    batch = Batch.objects.get()
    assert (batch.ready, batch.failed, batch.status) == (20, 5, "completed")


def test_a_batch_is_summed_up_by_three_numbers() -> None:
    """ "Expected: {"total": 25, "ready": 25, "failed": 0}"."""
    ana = user("ana")
    batch = ana("POST", "/batches", {"fileCount": 1}).data
    assert batch["status"] == "pending_upload"
    assert batch["summary"] == {"total": 1, "ready": 0, "failed": 0}


def test_stages_of_a_file_never_overlap() -> None:
    """ "Extract → Chunk → Embed order guaranteed for every file"."""
    files = upload(*[(f"{n}.txt", f"words {n}".encode()) for n in range(5)])
    process(6)
    for file in files:
        runs = list(file.runs.order_by("started_at"))
        assert [run.stage for run in runs] == ["extract", "chunk", "embed"]
        for first, second in itertools.pairwise(runs):
            assert first.ended_at is not None and second.started_at is not None
            assert first.ended_at <= second.started_at


def test_a_ready_file_is_found_at_once() -> None:
    """ "Index in Azure AI Search … embedding → ready (final state)": in one transaction."""
    [file] = upload(("a.txt", b"The lighthouse burns."))
    run_jobs(["file-extract", "file-chunk"])
    assert Chunk.objects.count() == 1
    assert search.search("user:1", "lighthouse").hits == []
    run_jobs(["file-embed"])
    assert [hit.file_id for hit in search.search("user:1", "lighthouse").hits] == [file.pk]


def test_nobody_has_to_move_a_file_by_hand() -> None:
    """ "No need for DB queries or manual re-enqueue scripts": a stuck file starts again."""
    from datetime import timedelta

    from django.utils import timezone

    from fileproc import upkeep

    [file] = upload(("a.txt", b"words"))
    flow.cancel([file], by="tests")
    File.objects.filter(pk=file.pk).update(
        status="extracting", moved_at=timezone.now() - timedelta(hours=1)
    )
    Batch.objects.update(queued=0, extracting=1, failed=0)
    assert upkeep.restart_stuck() == 1
    process(4)
    file.refresh_from_db()
    assert file.status == "ready"
