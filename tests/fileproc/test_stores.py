"""Documents in a bucket of S3, and stores that are away."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

import jobs
from fileproc.models import File, StageRun
from jobs import blobs, http
from jobs.testing import freeze_clock, run_jobs
from tests.blobs import seaweed
from tests.blobs.conftest import bucket
from tests.blobs.test_s3 import call
from tests.fileproc import documents
from tests.fileproc.caller import Caller, user
from tests.fileproc.conftest import process, upload

__all__ = ["bucket"]  # a fixture
pytestmark = pytest.mark.django_db
OTHER = documents.pdf("Nobody may row to the island in fog.")


@pytest.fixture
def s3(bucket: seaweed.Server, settings: Any) -> None:
    """The documents of the test are in a bucket."""
    settings.JOBS = {
        **settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"],
        "BLOBS": {
            "STORE": "s3", "ENDPOINT": bucket.endpoint, "BUCKET": seaweed.BUCKET,
            "REGION": seaweed.REGION, "KEY_ID": seaweed.KEY_ID, "SECRET": seaweed.SECRET,
        },
    }  # fmt: skip


def announced(ana: Caller, *documents_: bytes, **fields: Any) -> dict[str, Any]:
    files = [
        {"tempId": str(n), "fileName": f"{n}.pdf", "sizeBytes": len(data), **fields}
        for n, data in enumerate(documents_)
    ]
    made = ana("POST", "/batches", {"files": files})
    assert made.status_code == 201, made.data
    return dict(made.data)


def put(place: dict[str, Any], data: bytes, **changes: str) -> int:
    return call("PUT", place["uploadUrl"], data, **{**place["headers"], **changes})[0]


@pytest.mark.slow
@pytest.mark.usefixtures("s3")
def test_documents_go_from_the_client_to_the_bucket_and_end_ready() -> None:
    ana = user("ana")
    texts = [documents.pdf(), OTHER]
    batch = announced(ana, *texts)
    for place, data in zip(batch["files"], texts, strict=True):
        assert put(place, data) == 200
        assert put(place, data) == 412, "an upload replaces nothing"
    asked = {"files": [
        {"fileId": place["fileId"], "size": len(data), "md5": hashlib.md5(data).hexdigest()}  # noqa: S324
        for place, data in zip(batch["files"], texts, strict=True)
    ]}  # fmt: skip
    done = ana("POST", f"/batches/{batch['batchId']}/confirm", asked)
    assert (done.data["confirmed"], done.data["refused"]) == (2, 0)
    process(4)
    found = ana("POST", "/search", {"q": "row to the island"})
    assert found.data["hits"][0]["fileName"] == "1.pdf"
    file = batch["files"][1]["fileId"]
    link = ana("GET", f"/files/{file}/content").data["url"]
    status, body, headers = call("GET", link)
    assert (status, body) == (200, OTHER)
    assert headers["Content-Disposition"].startswith("attachment")
    key = File.objects.get(pk=file).blob_key
    assert ana("DELETE", f"/files/{file}").status_code == 204
    process(1)
    assert blobs.store().head(key) is None


@pytest.mark.slow
@pytest.mark.usefixtures("s3")
def test_a_bucket_takes_nothing_but_what_was_signed() -> None:
    ana = user("ana")
    digest = hashlib.sha256(OTHER).hexdigest()
    batch = announced(ana, OTHER, contentHash=digest)
    [place] = batch["files"]
    same_size = OTHER[:-1] + b"!"
    longer = OTHER + b"more"
    assert put(place, longer, **{"Content-Length": str(len(longer))}) == 403
    assert put(place, same_size) >= 400, "it has another checksum"
    assert put(place, OTHER, **{"Content-Type": "text/html"}) == 403
    assert put({**place, "uploadUrl": place["uploadUrl"].partition("?")[0]}, OTHER) == 403
    tampered = place["uploadUrl"].replace(batch["batchId"].replace("-", ""), "0" * 32)
    assert put({**place, "uploadUrl": tampered}, OTHER) == 403
    path = f"/batches/{batch['batchId']}/files/{place['fileId']}/confirm"
    early = ana("POST", path, {})
    assert (early.status_code, early.data["errorCode"]) == (409, "BLOB_NOT_FOUND")
    assert put(place, OTHER) == 200
    assert ana("POST", path, {}).data["status"] == "queued"
    # Whoever has the bucket may change it; what was not confirmed is never read.
    blobs.store().write(File.objects.get().blob_key, same_size)
    process()
    assert File.objects.get().error_code == "CONTENT_CHANGED"


def down(*_: Any, **__: Any) -> Any:
    raise http.Unreachable("bucket.example.com cannot be reached")


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """While the store is away; undone by the test."""
    with monkeypatch.context() as patch:
        patch.setattr(blobs.LocalStore, "head", down)
        patch.setattr(blobs.LocalStore, "list", down)
        yield patch


def test_files_wait_for_the_store_and_all_end_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    with freeze_clock() as clock:
        upload(*[(f"{n}.txt", f"lamp {n}".encode()) for n in range(5)])
        with monkeypatch.context() as patch:
            patch.setattr(blobs.LocalStore, "head", down)
            for _ in range(8):
                run_jobs()
                clock.tick(20)
            assert set(File.objects.values_list("status", flat=True)) == {"extracting"}
            assert jobs.Job.objects.filter(failures__gt=0).count() == 0
        for _ in range(8):
            run_jobs()
            clock.tick(20)
    assert set(File.objects.values_list("status", flat=True)) == {"ready"}
    assert set(StageRun.objects.values_list("attempts", flat=True)) == {1}


def test_a_confirmation_is_refused_while_the_store_is_away_and_changes_nothing(
    away: pytest.MonkeyPatch,
) -> None:
    ana = user("ana")
    batch = announced(ana, OTHER)
    path = f"/batches/{batch['batchId']}/files/{batch['files'][0]['fileId']}/confirm"
    refused = ana("POST", path, {})
    assert (refused.status_code, refused.data["errorCode"]) == (503, "STORE_UNAVAILABLE")
    assert refused.data["retryable"] is True
    away.undo()
    assert ana("POST", path, {}).data["errorCode"] == "BLOB_NOT_FOUND"


def test_many_confirmations_take_one_list_and_one_takes_one_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ana = user("ana")
    batch = announced(ana, *[OTHER] * 30)
    for place in batch["files"]:
        assert ana.put(place, OTHER).status_code == 200
    store = blobs.LocalStore
    head, listed = Mock(side_effect=store.head), Mock(side_effect=store.list)
    monkeypatch.setattr(store, "head", lambda self, key: head(self, key))
    monkeypatch.setattr(store, "list", lambda self, prefix: listed(self, prefix))
    first, *others = [{"fileId": place["fileId"]} for place in batch["files"]]
    path = f"/batches/{batch['batchId']}"
    ana("POST", f"{path}/files/{first['fileId']}/confirm", {})
    assert (head.call_count, listed.call_count) == (1, 0)
    done = ana("POST", f"{path}/confirm", {"files": others})
    assert done.data["confirmed"] == 29
    assert (head.call_count, listed.call_count) == (1, 1)


def test_the_page_may_upload_to_the_store_and_nowhere_else(settings: Any) -> None:
    ana = user("ana")
    page = ana.client.get("/uploads/")
    assert (
        "Content-Security-Policy" not in page
        or "connect-src" not in page["Content-Security-Policy"]
    )
    root = {"STORE": "local", "ROOT": "/nowhere"}
    bucket = {"STORE": "s3", "ENDPOINT": "https://s3.example.com/", "BUCKET": "b", "REGION": "r",
              "KEY_ID": "k", "SECRET": "s"}  # fmt: skip
    for options, origin in (
        ({**root, "ORIGIN": "https://files.example.com"}, "https://files.example.com"),
        (bucket, "https://s3.example.com"),
    ):
        settings.JOBS = {**settings.JOBS, "BLOBS": options}
        policy = ana.client.get("/uploads/")["Content-Security-Policy"]
        assert policy.endswith(f"connect-src 'self' {origin}")
