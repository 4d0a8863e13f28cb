"""Reprocessing and replacing: the old text is found until the new one is there."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, transaction

import jobs
from fileproc import embedding, extraction, generations, pipeline_version, states
from fileproc.errors import FileError
from fileproc.models import Batch, Chunk, Content, File, Stage, StageRun
from fileproc.services import (
    announcing,
    batches,
    confirming,
    deleting,
    quotas,
    reprocessing,
    retrying,
    search,
)
from jobs import blobs
from jobs.models import DeadLetter
from jobs.testing import emitted, run_jobs
from tests.fileproc import documents
from tests.fileproc.caller import program, user
from tests.fileproc.conftest import process, upload

OWNER = "user:1"
pytestmark = pytest.mark.django_db


@pytest.fixture
def ready() -> File:
    [file] = upload(("a.md", documents.MARKDOWN))
    process(4)
    file.refresh_from_db()
    assert file.status == "ready"
    return file


def found(words: str = "lighthouse") -> set[Any]:
    return {hit.file_id for hit in search.search(OWNER, words, mode="text").hits}


def reprocess(file: File) -> File:
    reprocessing.reprocess(OWNER, file.pk, by="ana")
    draft = file.draft()
    assert draft is not None
    return draft


def runs(file: File) -> list[str]:
    return list(file.all_runs().values_list("stage", flat=True))


def announce(name: str, data: bytes, *, replaces: Any, owner: str = OWNER) -> File:
    """Upload and confirm a file that replaces another."""
    batch = batches.create(owner, 1)
    made = batches.register(
        owner, batch.pk, announcing.Announced(name, len(data), replaces=replaces)
    )
    assert made.file is not None
    blobs.store().write(made.file.blob_key, data)
    heads = confirming.heads(owner, batch.pk, [made.file.pk])
    arrivals = [confirming.Arrival(made.file.pk)]
    [done] = confirming.confirm(owner, batch.pk, arrivals, heads, by="tests")
    assert done.refused is None
    return made.file


def test_an_unchanged_file_is_read_again_and_switched_in_one_moment(ready: File) -> None:
    old = ready.content_id
    draft = reprocess(ready)
    run_jobs(["file-extract"])
    run_jobs(["file-chunk"])
    draft.refresh_from_db()
    assert draft.status == "embedding"
    assert found() == {ready.pk}
    ready.refresh_from_db()
    assert (ready.status, ready.generation, ready.content_id) == ("ready", 1, old)
    process(3)
    ready.refresh_from_db()
    assert (ready.status, ready.generation) == ("ready", 2)
    assert ready.content_id != old and found() == {ready.pk}
    assert Content.objects.count() == 1 and File.objects.count() == 1
    assert runs(ready) == ["extract", "chunk", "embed"] * 2
    [event] = emitted("file:reprocessed")
    assert event.payload == {
        "fileId": str(ready.pk), "batchId": str(ready.batch_id), "generation": 2,
        "chunkCount": ready.chunk_count,
    }  # fmt: skip


def test_a_batch_does_not_notice_that_its_file_is_reprocessed(ready: File) -> None:
    before = Batch.objects.values().get()
    moves, done = len(emitted("file:status-changed")), len(emitted("batch:completed"))
    reprocess(ready)
    assert Batch.objects.values().get() == before
    assert quotas.used_bytes(OWNER) == ready.size
    process(4)
    after = Batch.objects.values().get()
    assert {**after, "is_progress_due": False} == {**before, "is_progress_due": False}
    assert len(emitted("file:status-changed")) == moves
    assert len(emitted("batch:completed")) == done == 1


@pytest.mark.parametrize(
    ("changed", "stages"),
    [
        ({"CHUNK_TOKENS": 40, "CHUNK_OVERLAP": 5}, ["chunk", "embed"]),
        ({"EXTRACTOR": 2}, ["extract", "chunk", "embed"]),
    ],
)
def test_what_changed_decides_the_first_stage(
    settings: Any, monkeypatch: pytest.MonkeyPatch, changed: dict[str, int], stages: list[str]
) -> None:
    settings.FILEPROC = {"EMBEDDER": "none", "CHUNK_TOKENS": 100, "CHUNK_OVERLAP": 5}
    [ready] = upload(("a.md", documents.MARKDOWN + b" lamp" * 400))
    process(4)
    ready.refresh_from_db()
    before = ready.chunk_count
    if "EXTRACTOR" in changed:
        monkeypatch.setattr(pipeline_version, "EXTRACTOR", changed["EXTRACTOR"])
    else:
        settings.FILEPROC = {"EMBEDDER": "none", **changed}
    reprocess(ready)
    process(4)
    ready.refresh_from_db()
    assert (ready.generation, runs(ready)[3:]) == (2, stages)
    assert (ready.chunk_count > before) == ("CHUNK_TOKENS" in changed)
    assert Content.objects.get().pipeline == pipeline_version.of(ready.batch)
    assert Chunk.objects.count() == ready.chunk_count


def test_a_new_model_embeds_the_chunks_that_are_there(model: None, settings: Any) -> None:
    size = {"CHUNK_TOKENS": 200, "CHUNK_OVERLAP": 30}
    settings.FILEPROC = {"EMBEDDER": "none", **size}
    [file] = upload(("a.md", documents.MARKDOWN))
    process(4)
    assert search.search(OWNER, "lighthouse").mode == "text"
    settings.FILEPROC = {"EMBEDDER": "minilm", **size}
    reprocess(file)
    process(4)
    file.refresh_from_db()
    assert (file.generation, runs(file)[3:]) == (2, ["embed"])
    hits = search.search(OWNER, "a beacon for ships", mode="vector").hits
    assert {hit.file_id for hit in hits} == {file.pk}


def test_twice_at_once_is_one_new_generation(ready: File) -> None:
    assert reprocess(ready).pk == reprocess(ready).pk
    process(4)
    ready.refresh_from_db()
    assert ready.generation == 2
    reprocess(ready)
    process(4)
    ready.refresh_from_db()
    assert ready.generation == 3 and Content.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_race_of_reprocessings_makes_one_draft(ready: File) -> None:
    def ask() -> None:
        try:
            reprocessing.reprocess(OWNER, ready.pk, by="ana")
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert File.objects.live().filter(replaces=ready.pk).count() == 1


def test_a_failure_leaves_the_old_one_in_place(
    ready: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        raise FileError("DAMAGED")

    with monkeypatch.context() as patch:
        patch.setattr(extraction, "read", broken)
        reprocess(ready)
        process()
    ready.refresh_from_db()
    assert (ready.status, ready.generation) == ("ready", 1) and found() == {ready.pk}
    draft = ready.draft()
    assert draft is not None and (draft.status, draft.error_code) == ("failed", "DAMAGED")
    [event] = emitted("file:reprocessed")
    assert event.payload == {
        "fileId": str(ready.pk), "batchId": str(ready.batch_id), "error": "DAMAGED",
    }  # fmt: skip
    [letter] = retrying.letters(OWNER, 50, 0)
    assert letter["fileId"] == ready.pk
    retrying.retry(OWNER, ready.pk, by="ana")
    assert not DeadLetter.objects.filter(state="open").exists()
    process(4)
    ready.refresh_from_db()
    assert (ready.generation, ready.draft()) == (2, None) and found() == {ready.pk}


def test_after_a_failure_it_can_be_reprocessed_or_retried_with_all(
    ready: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> Any:
        raise FileError("DAMAGED")

    with monkeypatch.context() as patch:
        patch.setattr(extraction, "read", broken)
        first = reprocess(ready)
        process()
        second = reprocess(ready)
        assert second.pk != first.pk
        process()
    assert not File.objects.filter(pk=first.pk).exists()
    assert retrying.retry_all(OWNER, by="ana").retried == 1
    process(4)
    ready.refresh_from_db()
    assert ready.generation == 2


@pytest.mark.parametrize("stage", ["", "file-extract", "file-chunk"])
def test_deleting_during_a_reprocessing_removes_both(ready: File, stage: str) -> None:
    draft = reprocess(ready)
    for queue in ("file-extract", "file-chunk"):
        if stage:
            run_jobs([queue])
        if queue == stage:
            break
    deleting.delete(OWNER, ready.pk)
    assert found() == set()
    process()
    assert not File.objects.filter(pk__in=[ready.pk, draft.pk]).exists()
    assert not Content.objects.exists() and not Chunk.objects.exists()
    assert list(blobs.store().list("fileproc/")) == []
    unfinished = jobs.Job.objects.filter(kind__in=["fileproc.extract", "fileproc.embed"])
    assert not unfinished.exclude(state__in=["succeeded", "cancelled"]).exists()


def test_deleting_between_the_embedding_and_the_switch_leaves_nothing(
    ready: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = reprocess(ready)
    original = states.lock

    def lock(batch_id: Any, file_id: Any) -> Any:
        current = File.objects.filter(pk=draft.pk, status="embedding").exists()
        if current and File.objects.live().filter(pk=ready.pk).exists():
            deleting.delete(OWNER, ready.pk)
        return original(batch_id, file_id)

    monkeypatch.setattr(states, "lock", lock)
    process()
    assert not File.objects.exists() and not Content.objects.exists()


def test_a_draft_is_in_no_answer(ready: File) -> None:
    draft = reprocess(ready)
    key = program(OWNER)
    ids = {file["fileId"] for file in key("GET", "/files").data["data"]}
    assert ids == {str(ready.pk)}
    assert key("GET", f"/files/{draft.pk}").status_code == 404
    assert key("DELETE", f"/files/{draft.pk}").status_code == 404
    health = key("GET", "/health").data["distribution"]
    assert (health["ready"], health["queued"]) == (1, 0)


def test_equal_files_share_what_was_made_anew() -> None:
    first, second = upload(("a.md", documents.MARKDOWN), ("b.md", documents.MARKDOWN))
    process(6)
    reprocess(first)
    process(4)
    first.refresh_from_db()
    second.refresh_from_db()
    assert first.content_id != second.content_id and found() == {first.pk, second.pk}
    [third] = upload(("c.md", documents.MARKDOWN))
    process(6)
    third.refresh_from_db()
    assert third.content_id == first.content_id
    deleting.delete(OWNER, second.pk)
    process(2)
    assert Content.objects.count() == 1 and found() == {third.pk}


def test_a_job_that_runs_again_after_the_switch_does_nothing(ready: File) -> None:
    draft = reprocess(ready)
    process(4)
    run = StageRun.objects.filter(stage=Stage.EMBED).latest("pk")
    assert run.file_id == ready.pk
    context: Any = type("Context", (), {"job_id": run.job_id, "fence": lambda self: None})()
    from fileproc import stages

    assert stages.begin(context, draft.pk, Stage.EMBED) is None


@pytest.mark.parametrize("status", ["registered", "failed"])
def test_what_is_not_ready_cannot_be_reprocessed(status: str) -> None:
    ana = user()
    batch = ana("POST", "/batches", {"fileCount": 1}).data["batchId"]
    asked = {"fileName": "a.pdf", "fileSize": 4}
    file = ana("POST", f"/batches/{batch}/upload-urls", asked).data["fileId"]
    if status == "failed":
        ana("DELETE", f"/batches/{batch}")
    refused = ana("POST", f"/files/{file}/reprocess")
    assert (refused.status_code, refused.data["errorCode"]) == (409, "STATE_CONFLICT")


def test_reprocessing_by_the_api_and_by_no_other_owner() -> None:
    ana, bob = user("ana"), user("bob")
    file = ana.upload("a.md", documents.MARKDOWN)
    process(4)
    assert bob("POST", f"/files/{file}/reprocess").status_code == 404
    begun = ana("POST", f"/files/{file}/reprocess")
    assert begun.status_code == 202
    assert (begun.data["status"], begun.data["generation"]) == ("ready", 1)
    assert begun.data["reprocess"] == {"status": "queued", "error": None}
    process(4)
    shown = ana("GET", f"/files/{file}").data
    assert (shown["generation"], shown["reprocess"], len(shown["stages"])) == (2, None, 6)


# ---- replaceFileId


def test_a_file_is_replaced_in_the_moment_in_which_the_new_one_is_ready(ready: File) -> None:
    new = announce("b.txt", b"a lighthouse of another age", replaces=ready.pk)
    run_jobs(["file-extract"])
    run_jobs(["file-chunk"])
    assert found() == {ready.pk}
    process(3)
    assert found() == {new.pk}
    assert not File.objects.filter(pk=ready.pk).exists()
    old_batch = Batch.objects.get(pk=ready.batch_id)
    assert (old_batch.file_count, old_batch.ready) == (0, 0)
    assert Batch.objects.get(pk=new.batch_id).status == "completed"
    assert Content.objects.count() == 1 and len(list(blobs.store().list("fileproc/"))) == 1


def test_a_replacement_that_fails_leaves_the_old_file(ready: File) -> None:
    new = announce("b.pdf", b"%PDF-1.7 broken", replaces=ready.pk)
    process()
    new.refresh_from_db()
    assert new.status == "failed" and found() == {ready.pk}


def test_a_file_is_replaced_by_an_equal_one_and_takes_its_text(ready: File) -> None:
    new = announce("a.md", documents.MARKDOWN, replaces=ready.pk)
    process(4)
    assert found() == {new.pk}
    assert Content.objects.count() == 1 and not File.objects.filter(pk=ready.pk).exists()


def test_of_two_replacements_both_stay_and_the_old_file_goes_once(ready: File) -> None:
    first = announce("b.txt", b"one lighthouse", replaces=ready.pk)
    second = announce("c.txt", b"two lighthouses", replaces=ready.pk)
    process(4)
    assert found() == {first.pk, second.pk}
    assert Batch.objects.get(pk=ready.batch_id).ready == 0


def test_a_replaced_file_goes_with_its_draft(ready: File) -> None:
    draft = reprocess(ready)
    new = announce("b.txt", b"another lighthouse", replaces=ready.pk)
    with transaction.atomic():
        generations.hide(ready)
    process()
    assert not File.objects.filter(pk__in=[draft.pk, ready.pk]).exists()
    new.refresh_from_db()
    assert new.status == "ready"


def test_a_manifest_replaces_by_id_and_refuses_what_is_not_there() -> None:
    ana, bob = user("ana"), user("bob")
    old = ana.upload("a.md", documents.MARKDOWN)
    other = bob.upload("b.md", documents.MARKDOWN)
    ana("PATCH", "/files", {"files": [{"fileId": old, "metadata": {"year": 2024}}]})
    process(4)
    files = [
        {"tempId": "1", "fileName": "a.md", "sizeBytes": 5, "replaceFileId": old},
        {"tempId": "2", "fileName": "b.md", "sizeBytes": 5, "replaceFileId": other},
        {"tempId": "3", "fileName": "c.md", "sizeBytes": 5, "replaceFileId": old},
        {"tempId": "4", "fileName": "d.md", "sizeBytes": 5},
    ]
    made = ana("POST", "/batches", {"files": files})
    assert made.status_code == 201, made.content
    refused = {one["tempId"]: one["errorCode"] for one in made.data["refused"]}
    assert refused == {"2": "FILE_NOT_FOUND", "3": "INVALID_REQUEST"}
    new = made.data["files"][0]
    assert ana.put(new, b"lamps").status_code == 200
    ana("POST", f"/batches/{made.data['batchId']}/files/{new['fileId']}/confirm", {})
    process(4)
    shown = ana("GET", f"/files/{new['fileId']}").data
    assert (shown["status"], shown["replaces"]) == ("ready", old)
    assert shown["metadata"] == {"year": 2024}
    assert ana("GET", f"/files/{old}").status_code == 404


def test_the_step_form_replaces_too() -> None:
    ana = user()
    batch = ana("POST", "/batches", {"fileCount": 1}).data["batchId"]
    asked = {
        "fileName": "a.md",
        "fileSize": 5,
        "replaceFileId": "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
    }
    refused = ana("POST", f"/batches/{batch}/upload-urls", asked)
    assert (refused.status_code, refused.data["errorCode"]) == (404, "FILE_NOT_FOUND")
    assert ana("GET", f"/batches/{batch}").data["counts"]["registered"] == 0


@pytest.mark.django_db(transaction=True)
def test_two_batches_that_replace_each_others_files_do_not_deadlock() -> None:
    """Each transaction wants both batches; whichever comes first, none waits in a circle."""
    a, b = upload(("a.txt", b"one lighthouse"))[0], upload(("b.txt", b"two lighthouses"))[0]
    File.objects.filter(pk=a.pk).update(replaces=b.pk)
    File.objects.filter(pk=b.pk).update(replaces=a.pk)
    both = threading.Barrier(2, timeout=30)
    errors: list[BaseException] = []

    def lock(file: File) -> None:
        try:
            for _ in range(20):
                both.wait()
                with transaction.atomic():
                    assert states.lock(file.batch_id, file.pk) is not None
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=lock, args=[file]) for file in (a, b)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


# ---- what a stage finds that an equal file has left


def test_a_file_that_resumes_where_the_chunks_are_gone_cuts_them_again(
    model: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(texts: Any) -> Any:
        raise RuntimeError("planned")

    with monkeypatch.context() as patch:
        patch.setattr(embedding, "embed", broken)
        [file] = upload(("a.md", documents.MARKDOWN))
        process()
    retrying.retry(OWNER, file.pk, by="ana")
    Chunk.objects.all().delete()
    process()
    file.refresh_from_db()
    assert (file.status, file.error_code) == ("failed", "INTERNAL_ERROR")
    retrying.retry(OWNER, file.pk, by="ana")
    process(4)
    file.refresh_from_db()
    assert file.status == "ready" and found() == {file.pk}


def test_settings_that_change_between_stages_do_not_lose_a_file(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FILEPROC = {"EMBEDDER": "none"}
    [file] = upload(("a.md", documents.MARKDOWN))
    run_jobs(["file-extract"])
    run_jobs(["file-chunk"])
    settings.FILEPROC = {"EMBEDDER": "none", "CHUNK_TOKENS": 60, "CHUNK_OVERLAP": 5}
    process(4)
    file.refresh_from_db()
    assert file.status == "ready" and found() == {file.pk}
