"""From the confirmation of a file to its end."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

import jobs
from fileproc import embedding, extraction, pipeline_version, stages, states
from fileproc.errors import Refused
from fileproc.models import Batch, Chunk, Content, File, StageRun
from fileproc.payloads import Embed, Extract
from fileproc.services import batches, deleting, retrying, search
from jobs.models import DeadLetter
from jobs.testing import emitted, freeze_clock, lose_at_fence, run_jobs
from tests.fileproc import documents
from tests.fileproc.conftest import process, upload

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("kind", documents.EVERY)
def test_each_type_ends_ready_and_is_found(kind: str) -> None:
    [file] = upload((f"a.{kind}", documents.EVERY[kind]))
    process(4)
    file.refresh_from_db()
    assert (file.status, file.type, file.error_code) == ("ready", kind, "")
    found = search.search("user:1", "lighthouse")
    assert {hit.file_id for hit in found.hits} == {file.pk}
    assert "lighthouse" in found.hits[0].text
    assert found.mode == ("hybrid" if embedding.model() else "text")
    assert search.search("user:2", "lighthouse").hits == []


def test_a_file_walks_through_every_state_in_order_and_its_batch_completes_once() -> None:
    [file] = upload(("a.pdf", documents.pdf()))
    process(4)
    moves = [event.payload["to"] for event in emitted("file:status-changed")]
    assert moves == ["uploaded", "queued", "extracting", "chunking", "embedding", "ready"]
    [done] = emitted("batch:completed")
    assert done.payload["summary"] == {"total": 1, "ready": 1, "failed": 0}
    assert done.key == f"batch:{file.batch_id}" and done.tenant == "user:1"
    assert emitted("batch:progress")[-1].payload["ready"] == 1
    batch = Batch.objects.get()
    assert (batch.status, batch.processed_count, batch.revision) == ("completed", 1, 1)


BAD = {
    "ENCRYPTED": ("a.pdf", documents.pdf(encrypt=True)),
    "DAMAGED": ("b.pdf", b"%PDF-1.7 and then nothing"),
    "UNSUPPORTED_TYPE": ("c.txt", b"\x7fELF\x00\x01"),
    "NO_TEXT": ("d.txt", b" \n \n"),
    "BOMB": ("e.docx", documents.docx_bomb()),
    "CRASHED": ("f.xlsx", documents.xlsx(("a", "b"), last="XFD1048576")),
}


@pytest.mark.parametrize("code", BAD)
def test_a_bad_file_fails_with_its_code_after_three_attempts(code: str) -> None:
    good, bad = upload(("ok.txt", b"good words"), BAD[code])
    process()
    for file in (good, bad):
        file.refresh_from_db()
    assert (good.status, bad.status, bad.error_code) == ("ready", "failed", code)
    assert bad.error is not None and bad.error["stage"] in ("extracting", "chunking")
    [letter] = retrying.letters("user:1", 50, 0)
    assert (letter["fileId"], letter["error"]) == (bad.pk, code)
    if code != "CRASHED":
        assert letter["attempts"] == 3
    batch = Batch.objects.get()
    assert (batch.status, batch.ready, batch.failed) == ("completed", 1, 1)


def test_a_letter_is_listed_once_its_file_can_be_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The letter opens with the end of the job, before the file has failed."""
    seen: list[tuple[int, int]] = []
    original = states.fail

    def fail(file: File, code: str, *, by: str) -> None:
        letters = DeadLetter.objects.filter(state="open", tenant="user:1").count()
        seen.append((letters, len(retrying.letters("user:1", 50, 0))))
        original(file, code, by=by)

    monkeypatch.setattr(states, "fail", fail)
    [file] = upload(BAD["DAMAGED"])
    process()
    assert seen == [(1, 0)]
    [letter] = retrying.letters("user:1", 50, 0)
    assert letter["fileId"] == file.pk
    assert retrying.retry("user:1", file.pk, by="tests").status == "queued"


def test_the_letter_of_a_cancelled_batch_is_not_listed_since_it_cannot_be_retried() -> None:
    bad, waiting = upload(BAD["DAMAGED"], ("ok.txt", b"good words"), count=3)
    process()
    assert len(retrying.letters("user:1", 50, 0)) == 1
    batches.cancel("user:1", bad.batch_id, by="ana")
    assert retrying.letters("user:1", 50, 0) == []
    with pytest.raises(Refused):
        retrying.retry("user:1", bad.pk, by="ana")
    waiting.refresh_from_db()
    assert waiting.status == "ready"


def test_a_retry_resumes_and_counts_a_new_revision(
    model: None, monkeypatch: pytest.MonkeyPatch
) -> None:

    def broken(texts: Any) -> Any:
        raise RuntimeError("planned")

    with monkeypatch.context() as patch:
        patch.setattr(embedding, "embed", broken)
        [file] = upload(("a.md", documents.MARKDOWN))
        process()
    file.refresh_from_db()
    assert (file.status, file.error_stage) == ("failed", "embedding")
    assert len(emitted("batch:completed")) == 1
    retried = retrying.retry("user:1", file.pk, by="ana")
    assert (retried.status, retried.resume_stage) == ("queued", "embed")
    assert not DeadLetter.objects.filter(state="open").exists()
    process(4)
    file.refresh_from_db()
    assert file.status == "ready"
    runs = list(StageRun.objects.order_by("pk").values_list("stage", "outcome"))
    assert runs == [("extract", "done"), ("chunk", "done"), ("embed", "done")]
    assert [one.payload["revision"] for one in emitted("batch:completed")] == [1, 2]


def test_a_failed_extraction_is_retried_with_the_rest_of_its_chain() -> None:
    [file] = upload(("a.pdf", b"%PDF-1.7 broken"))
    process()
    from jobs import blobs

    file.refresh_from_db()
    key = file.blob_key
    data = documents.pdf()
    blobs.store().write(key, data)
    head = blobs.store().head(key)
    assert head is not None
    File.objects.filter(pk=file.pk).update(size=len(data), blob_etag=head.etag, sha256="")
    retrying.retry("user:1", file.pk, by="ana")
    process(4)
    file.refresh_from_db()
    assert file.status == "ready"
    assert StageRun.objects.count() == 3


def test_a_retry_of_the_platform_walks_back_through_the_queue() -> None:
    [file] = upload(("a.pdf", b"%PDF-1.7 broken"))
    process()
    run = StageRun.objects.get(stage="extract")
    jobs.retry(run.job_id, by="an operator")
    run_jobs()
    moves = [(e.payload["from"], e.payload["to"]) for e in emitted("file:status-changed")]
    assert moves[-3:] == [("failed", "queued"), ("queued", "extracting"), ("extracting", "failed")]
    file.refresh_from_db()
    assert file.status == "failed"
    assert Batch.objects.get().revision == 2


def test_equal_bytes_are_processed_once() -> None:
    files = upload(*[(f"{n}.pdf", documents.pdf()) for n in range(5)])
    process(6)
    assert set(File.objects.values_list("status", flat=True)) == {"ready"}
    assert Content.objects.count() == 1 and Chunk.objects.count() == 1
    deleting.delete("user:1", files[0].pk)
    process(1)
    assert File.objects.count() == 4 and Chunk.objects.count() == 1
    assert len(search.search("user:1", "lighthouse").hits) == 1


def count_copies(monkeypatch: pytest.MonkeyPatch) -> list[File]:
    """Return a list that grows with each reading of a file's bytes."""
    copied: list[File] = []
    original = extraction.copy

    def copy(file: File) -> Any:
        copied.append(file)
        return original(file)

    monkeypatch.setattr(extraction, "copy", copy)
    return copied


def test_equal_broken_files_fail_together_and_are_read_no_more_than_their_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None waits until all attempts at another have failed, nor reads its bytes to see that."""
    copies = count_copies(monkeypatch)
    upload(*[(f"{n}.pdf", b"%PDF-1.7 broken") for n in range(5)])
    with freeze_clock() as clock:
        for _ in range(22):
            run_jobs()
            clock.tick(1)
    assert list(File.objects.values_list("status", "error_code")) == [("failed", "DAMAGED")] * 5
    assert set(StageRun.objects.filter(stage="extract").values_list("attempts")) == {(3,)}
    assert len(copies) <= 15


def test_a_file_that_waits_for_an_equal_one_asks_less_and_less_and_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [file] = upload(("a.txt", b"the same words"))
    version = pipeline_version.of(file.batch)
    Content.objects.create(
        owner="user:1", sha256=_sha(b"the same words"), pipeline=version, holder=uuid4()
    )
    monkeypatch.setattr(stages, "_is_at_work", lambda holder: True)
    copies = count_copies(monkeypatch)
    with freeze_clock() as clock:
        for _ in range(60):
            run_jobs(["file-extract"])
            clock.tick(1)
    job = jobs.Job.objects.get(pk=file.runs.get(stage="extract").job_id)
    assert 5 <= job.attempt <= 12 and len(copies) == 1


def test_the_next_of_equal_files_takes_over_when_the_first_is_deleted() -> None:
    with freeze_clock() as clock:
        first, second = upload(("a.txt", b"the same words"), ("b.txt", b"the same words"))
        version = pipeline_version.of(first.batch)
        Content.objects.create(
            owner="user:1", sha256=_sha(b"the same words"), pipeline=version, holder=first.pk
        )
        deleting.delete("user:1", first.pk)
        for _ in range(6):
            run_jobs()
            clock.tick(5)
    second.refresh_from_db()
    assert second.status == "ready"
    batch = Batch.objects.get()
    assert (batch.file_count, batch.ready, batch.status) == (1, 1, "completed")


def _sha(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def test_owners_share_nothing() -> None:
    upload(("a.txt", b"secret words"), owner="user:1")
    upload(("a.txt", b"secret words"), owner="user:2")
    process(4)
    assert Content.objects.count() == 2
    [hit] = search.search("user:2", "secret").hits
    assert File.objects.get(pk=hit.file_id).owner == "user:2"


@pytest.mark.parametrize("payload", [Extract, Embed])
def test_an_attempt_that_lost_its_job_writes_nothing(payload: Any) -> None:
    with lose_at_fence(payload, times=1):
        [file] = upload(("a.pdf", documents.pdf()))
        process(6)
    file.refresh_from_db()
    assert file.status == "ready"
    assert Chunk.objects.count() == 1


def test_a_deleted_file_is_gone_from_every_answer() -> None:
    first, second = upload(("a.txt", b"first words"), ("b.txt", b"second words"))
    process(4)
    deleting.delete("user:1", first.pk)
    assert [h.file_id for h in search.search("user:1", "words").hits] == [second.pk]
    process(1)
    assert not File.objects.filter(pk=first.pk).exists()
    batch = Batch.objects.get()
    assert (batch.file_count, batch.ready) == (1, 1)


def test_deleting_what_waits_completes_the_batch() -> None:
    first, second = upload(("a.txt", b"first words"), ("b.txt", b"second words"))
    deleting.delete("user:1", first.pk)
    process(4)
    second.refresh_from_db()
    assert second.status == "ready"
    assert [e.payload["summary"]["total"] for e in emitted("batch:completed")] == [1]


def test_a_cancelled_batch_ends_its_files_and_their_jobs() -> None:
    files = upload(("a.txt", b"words"), ("b.txt", b"more words"))
    batch = batches.cancel("user:1", files[0].batch_id, by="ana")
    assert (batch.status, batch.failed) == ("cancelled", 2)
    process(3)
    assert set(File.objects.values_list("status", "error_code")) == {("failed", "CANCELLED")}
    assert not jobs.Job.objects.filter(
        kind__in=["fileproc.extract", "fileproc.chunk", "fileproc.embed"],
        state__in=["blocked", "pending", "queued", "running"],
    ).exists()
    assert emitted("batch:completed") == []


def test_content_that_changed_after_the_confirmation_is_not_read() -> None:
    from jobs import blobs

    [file] = upload(("a.txt", b"first"))
    blobs.store().write(file.blob_key, b"other")
    process()
    file.refresh_from_db()
    assert (file.status, file.error_code) == ("failed", "CONTENT_CHANGED")


def test_a_wrong_md5_fails_the_file() -> None:
    [file] = upload(("a.txt", b"words"), md5="0" * 32)
    process()
    file.refresh_from_db()
    assert file.error_code == "HASH_MISMATCH"


def test_without_an_embedder_search_is_by_words(settings: Any) -> None:
    settings.FILEPROC = {"EMBEDDER": "none"}
    upload(("a.md", documents.MARKDOWN))
    process(4)
    found = search.search("user:1", "storms and lamps", mode="hybrid")
    assert found.mode == "text" and found.hits[0].headings == ["Handbook", "Duties"]
