"""The upload API, for users and for programs."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from fileproc.models import Batch, File, Quota
from fileproc.permissions import QUEUES
from fileproc.verbs import VIEW_FILE
from jobs.models import Job
from tests.fileproc import documents
from tests.fileproc.caller import Caller, program, user
from tests.fileproc.conftest import process

pytestmark = pytest.mark.django_db


@pytest.fixture
def ana() -> Caller:
    return user("ana")


def test_a_session_of_curl_works_without_a_content_type(ana: Caller) -> None:
    form = {"content_type": "application/x-www-form-urlencoded"}
    key = program("acme")
    made = key("POST", "/batches", {"fileCount": 1}, **form)
    assert (made.status_code, made.data["status"]) == (200, "pending_upload")
    batch = made.data["batchId"]
    data = documents.pdf()
    asked = {"fileName": "test.pdf", "fileSize": len(data)}
    place = key("POST", f"/batches/{batch}/upload-urls", asked, **form).data
    assert place["headers"]["Content-Type"] == "application/pdf"
    assert key.put(place, data).status_code == 200
    path = f"/batches/{batch}/files/{place['fileId']}/confirm"
    done = key("POST", path, {"size": len(data), "md5": "abc123"}, **form)
    assert done.data == {
        "fileId": place["fileId"], "status": "queued", "md5": "not compared: no MD5",
    }  # fmt: skip
    process(4)
    assert key("GET", f"/files/{place['fileId']}").data["status"] == "ready"
    told = key("GET", f"/batches/{batch}").data
    assert told["summary"] == {"total": 1, "ready": 1, "failed": 0}
    assert (told["status"], told["processed_count"]) == ("completed", 1)
    again = key("POST", path, {"size": len(data), "md5": "abc123"})
    assert (again.status_code, again.data["status"]) == (200, "ready")
    assert Job.objects.filter(kind="fileproc.extract").count() == 1


def test_twenty_five_equal_files_all_end_ready(ana: Caller) -> None:
    batch = ana("POST", "/batches", {"fileCount": 25}).data["batchId"]
    for n in range(25):
        ana.upload(f"test{n}.pdf", documents.pdf(), batch)
    full = ana("POST", f"/batches/{batch}/upload-urls", {"fileName": "x.pdf", "fileSize": 1})
    assert (full.status_code, full.data["errorCode"]) == (409, "BATCH_FULL")
    process(12)
    assert ana("GET", f"/batches/{batch}").data["summary"] == {
        "total": 25, "ready": 25, "failed": 0,
    }  # fmt: skip


def test_a_broken_file_is_a_dead_letter_and_is_retried(ana: Caller) -> None:
    file = ana.upload("a.pdf", b"%PDF-1.4 broken")
    process()
    [entry] = ana("GET", "/dlq").data["entries"]
    assert (entry["fileId"], entry["stage"], entry["attempts"]) == (file, "extracting", 3)
    assert ana("GET", f"/files/{file}").data["error"]["code"] == "DAMAGED"
    assert ana("POST", f"/dlq/{file}/retry").data == {"success": True}
    assert ana("GET", f"/files/{file}").data["status"] == "queued"
    assert ana("GET", "/dlq").data["entries"] == []
    assert ana("POST", f"/dlq/{file}/retry").status_code == 409
    process()
    again = ana("POST", "/dlq/retry-all", {})
    assert again.data == {"retried": 1, "failed": 0, "remaining": 0}


def test_a_manifest_registers_500_files_and_refuses_some(ana: Caller) -> None:
    files = [{"tempId": str(n), "fileName": f"{n}.txt", "sizeBytes": 5} for n in range(500)]
    files[3]["sizeBytes"] = 0
    files[4]["fileName"] = "x.exe"
    files[5]["sizeBytes"] = 10**12
    made = ana("POST", "/batches", {"files": files})
    assert (made.status_code, made.data["status"]) == (201, "active")
    assert [(one["tempId"], one["errorCode"]) for one in made.data["refused"]] == [
        ("3", "EMPTY_FILE"), ("4", "UNSUPPORTED_TYPE"), ("5", "FILE_TOO_LARGE"),
    ]  # fmt: skip
    assert len(made.data["files"]) == 497 == made.data["summary"]["total"]
    for one in made.data["files"][:3]:
        assert ana.put(one, b"words").status_code == 200
    ids = [{"fileId": one["fileId"]} for one in made.data["files"][:4]]
    done = ana("POST", f"/batches/{made.data['batchId']}/confirm", {"files": ids})
    assert (done.data["confirmed"], done.data["refused"]) == (3, 1)
    assert done.data["files"][3]["errorCode"] == "BLOB_NOT_FOUND"


def test_duplicates_are_named_unless_they_are_wanted(ana: Caller) -> None:
    sha = hashlib.sha256(b"words").hexdigest()
    file = {"tempId": "a", "fileName": "a.txt", "sizeBytes": 5, "contentHash": sha}
    first = ana("POST", "/batches", {"files": [file]})
    other = {**file, "fileName": "b.txt"}
    again = ana("POST", "/batches", {"files": [other]})
    assert (again.status_code, again.data["errorCode"]) == (409, "DUPLICATE_FILES")
    [told] = again.data["duplicates"]
    assert (told["matchType"], told["fileId"]) == ("content", first.data["files"][0]["fileId"])
    wanted = ana("POST", "/batches", {"files": [other], "skipDuplicateCheck": True})
    assert wanted.status_code == 201
    assert user("ben")("POST", "/batches", {"files": [other]}).status_code == 201


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({}, 400, "INVALID_MANIFEST"),
    ({"fileCount": 1, "files": []}, 400, "INVALID_MANIFEST"),
    ({"files": []}, 400, "INVALID_MANIFEST"),
    ({"fileCount": 0}, 422, "INVALID_REQUEST"),
    ({"fileCount": "many"}, 422, "INVALID_REQUEST"),
    ({"files": [{"fileName": "a.txt", "sizeBytes": 1}] * 501}, 413, "BATCH_TOO_LARGE"),
    ({"files": [{"tempId": "a", "fileName": "a.txt", "sizeBytes": 1}] * 2}, 400,
     "INVALID_MANIFEST"),
    ({"files": [{"fileName": "a\x00.txt", "sizeBytes": 1}]}, 422, "INVALID_REQUEST"),
    ({"files": [{"fileName": "a" * 300 + ".txt", "sizeBytes": 1}]}, 422, "INVALID_REQUEST"),
    ({"files": [{"fileName": "a.tiff", "sizeBytes": 1}]}, 415, "UNSUPPORTED_TYPE"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD)))
def test_a_bad_request_is_a_problem_with_a_code(ana: Caller, case: int) -> None:
    body, status, code = BAD[case]
    answer = ana("POST", "/batches", body)
    assert (answer.status_code, answer.data["errorCode"]) == (status, code)
    assert answer["Content-Type"] == "application/problem+json"
    assert Batch.objects.count() == 0


@pytest.mark.parametrize("name", ["ready.txt", "1.txt", "../x.txt", "a\r\nb.txt", "a\u202eb.txt"])
def test_odd_names_break_nothing(ana: Caller, name: str) -> None:
    file = ana.upload(name, b"lighthouse")
    process(4)
    assert ana("GET", f"/files/{file}").data["fileName"] == name
    link = ana("GET", f"/files/{file}/content").data["url"]
    download: Any = Client().get(link)
    assert b"".join(download.streaming_content) == b"lighthouse"
    assert download["Content-Disposition"].startswith("attachment")
    assert "sandbox" in download["Content-Security-Policy"]
    [hit] = ana("GET", "/search?q=lighthouse").data["hits"]
    assert hit["fileName"] == name


def test_what_was_read_is_told_with_pages_and_headings(ana: Caller) -> None:
    file = ana.upload("a.pdf", documents.pdf("First the oil.", "Then the lighthouse lamp."))
    process(4)
    text = ana("GET", f"/files/{file}/text").data
    assert "First the oil." in text["text"] and text["total"] == len(text["text"])
    [chunk] = ana("GET", f"/files/{file}/chunks").data["data"]
    assert chunk["pages"] == [1, 2]
    found = ana("POST", "/search", {"q": "lamp", "type": "pdf"}).data
    assert found["hits"][0]["pages"] == [1, 2] and found["hits"][0]["fileName"] == "a.pdf"
    assert ana("POST", "/search", {"q": "lamp", "type": "docx"}).data["hits"] == []
    assert ana("POST", "/search", {"q": "lamp", "mode": "magic"}).status_code == 422


def test_hits_are_narrowed_by_metadata(ana: Caller) -> None:
    asked = {"fileName": "a.txt", "fileSize": 5, "metadata": {"year": 1999}}
    batch = ana("POST", "/batches", {"fileCount": 1}).data["batchId"]
    made = ana("POST", f"/batches/{batch}/upload-urls", asked).data
    ana.put(made, b"words")
    ana("POST", f"/batches/{batch}/files/{made['fileId']}/confirm", {})
    process(4)
    for year, count in ((1999, 1), (2000, 0)):
        asked = {"q": "words", "metadata": {"year": year}}
        assert len(ana("POST", "/search", asked).data["hits"]) == count
    changed = {"files": [{"fileId": made["fileId"], "metadata": {"year": 2000}}]}
    assert user("ben")("PATCH", "/files", changed).status_code == 404
    assert ana("PATCH", "/files", changed).data == {"changed": 1}
    assert len(ana("POST", "/search", asked).data["hits"]) == 1
    large = {"files": [{"fileId": made["fileId"], "metadata": {"x": "y" * 5000}}]}
    assert ana("PATCH", "/files", large).status_code == 422


def test_a_batch_is_sealed_renewed_and_cancelled(ana: Caller) -> None:
    batch = ana("POST", "/batches", {"fileCount": 5}).data["batchId"]
    asked = {"fileName": "a.txt", "fileSize": 5}
    made = ana("POST", f"/batches/{batch}/upload-urls", asked).data
    ana.put(made, b"wrong")
    fresh = ana("POST", f"/batches/{batch}/files/{made['fileId']}/upload-url").data
    assert fresh["uploadUrl"] != made["uploadUrl"]
    assert ana.put(fresh, b"right").status_code == 200
    assert ana.put(fresh, b"other").status_code == 409
    sealed = ana("POST", f"/batches/{batch}/seal").data
    assert sealed["summary"]["total"] == 1
    gone = ana("DELETE", f"/batches/{batch}").data
    assert (gone["status"], gone["summary"]["failed"]) == ("cancelled", 1)
    late = ana("POST", f"/batches/{batch}/files/{made['fileId']}/confirm", {})
    assert (late.status_code, late.data["status"]) == (200, "failed")


def test_a_file_is_deleted_in_any_state(ana: Caller) -> None:
    file = ana.upload("a.txt", b"words")
    assert ana("DELETE", f"/files/{file}").status_code == 204
    assert ana("GET", f"/files/{file}").status_code == 404
    assert ana("DELETE", f"/files/{file}").data["errorCode"] == "FILE_NOT_FOUND"
    assert ana("GET", "/files").data["data"] == []
    process(2)
    assert not File.objects.exists()


def test_quotas_bound_bytes_and_open_batches(ana: Caller) -> None:
    batch = ana("POST", "/batches", {"fileCount": 2}).data["batchId"]
    Quota.objects.update(bytes_limit=10, batches_limit=1)
    full = ana("POST", "/batches", {"fileCount": 1})
    assert (full.status_code, full.data["errorCode"]) == (413, "QUOTA_EXCEEDED")
    path = f"/batches/{batch}/upload-urls"
    assert ana("POST", path, {"fileName": "a.txt", "fileSize": 8}).status_code == 200
    assert ana("POST", path, {"fileName": "b.txt", "fileSize": 8}).status_code == 413


EVERYTHING = [
    ("GET", "/batches/{batch}"), ("POST", "/batches/{batch}/upload-urls"),
    ("POST", "/batches/{batch}/files/{file}/confirm"), ("POST", "/batches/{batch}/confirm"),
    ("POST", "/batches/{batch}/files/{file}/upload-url"), ("POST", "/batches/{batch}/seal"),
    ("DELETE", "/batches/{batch}"), ("GET", "/files/{file}"), ("DELETE", "/files/{file}"),
    ("GET", "/files/{file}/content"), ("GET", "/files/{file}/text"),
    ("GET", "/files/{file}/chunks"), ("POST", "/dlq/{file}/retry"),
    ("POST", "/stuck/{file}/retry"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), EVERYTHING)
def test_others_find_nothing(ana: Caller, method: str, path: str) -> None:
    file = ana.upload("a.txt", b"words")
    batch = str(File.objects.get().batch_id)
    bodies = {"upload-urls": {"fileName": "b.txt", "fileSize": 1}, "confirm": {}}
    body: Any = bodies.get(path.rpartition("/")[2], {})
    if path.endswith("{batch}/confirm"):
        body = {"files": [{"fileId": file}]}
    owner = File.objects.get().owner
    other_queue = program(owner, queues=["mail"], name="mail")
    narrow = program(owner, permissions=["view_job"], name="nothing")
    address = path.format(batch=batch, file=file)
    for who in (user("ben"), program("acme", name="acme"), other_queue):
        answer = who(method, address, body)
        if path.endswith("{batch}/confirm") and answer.status_code == 200:
            assert answer.data["confirmed"] == 0
        else:
            assert answer.status_code == 404, answer.content
    assert narrow(method, address, body).status_code == 403
    assert Caller(Client(), {})(method, address, body).status_code == 401
    assert File.objects.get().status == "queued"


def test_lists_and_searches_of_others_are_empty(ana: Caller) -> None:
    ana.upload("a.txt", b"words")
    process(4)
    ben = user("ben")
    for path in ("/batches", "/files"):
        assert ben("GET", path).data["data"] == []
    assert ben("GET", "/search?q=words").data["hits"] == []
    assert ben("GET", "/dlq").data["entries"] == []
    assert sum(ben("GET", "/health").data["distribution"].values()) == 0
    named = ben("GET", "/files?owner=user:1")
    assert named.status_code == 404


def test_a_program_of_several_tenants_names_one() -> None:
    both = program("acme", "globex")
    assert both("POST", "/batches", {"fileCount": 1}).status_code == 422
    made = both("POST", "/batches", {"fileCount": 1, "owner": "globex"})
    assert Batch.objects.get(pk=made.data["batchId"]).owner == "globex"
    assert both("POST", "/batches", {"fileCount": 1, "owner": "initech"}).status_code == 404


def test_an_upload_that_is_not_the_announced_one_is_refused(ana: Caller) -> None:
    batch = ana("POST", "/batches", {"fileCount": 1}).data["batchId"]
    sha = hashlib.sha256(b"words").hexdigest()
    asked = {"fileName": "a.txt", "fileSize": 5, "contentHash": sha}
    made = ana("POST", f"/batches/{batch}/upload-urls", asked).data
    other = {**made, "uploadUrl": made["uploadUrl"].replace("size=5", "size=6")}
    assert ana.put(other, b"words!").status_code == 403
    assert ana.put(made, b"longer words").status_code == 400
    assert ana.put(made, b"swore").status_code == 400
    path = f"/batches/{batch}/files/{made['fileId']}/confirm"
    missing = ana("POST", path, {})
    assert (missing.status_code, missing.data["errorCode"]) == (409, "BLOB_NOT_FOUND")
    assert ana.put(made, b"words").status_code == 200
    wrong = ana("POST", path, {"size": 6})
    assert (wrong.status_code, wrong.data["errorCode"]) == (409, "SIZE_MISMATCH")
    assert ana("POST", path, {"size": 5}).status_code == 200


def test_no_job_of_the_pipeline_is_made_or_edited_through_the_platforms_api(ana: Caller) -> None:
    from tests.api.conftest import Caller as Platform

    ana.upload("a.txt", b"words")
    root = Platform(name="root", is_staff=True)
    job = Job.objects.filter(kind="fileproc.extract").get()
    made = root("POST", "/jobs", {"kind": "fileproc.extract", "payload": {"file_id": str(uuid4())}})
    assert made.status_code in (404, 422)
    etag = root("GET", f"/jobs/{job.pk}")["ETag"]
    edited = root("PATCH", f"/jobs/{job.pk}", {"priority": 7, "reason": "x"}, If_Match=etag)
    assert edited.status_code == 422


def test_how_it_goes_is_told(ana: Caller) -> None:
    ana.upload("a.txt", b"words")
    ana.upload("b.pdf", b"%PDF-1.4 broken")
    process()
    health = ana("GET", "/health").data
    assert health["transitions"]["failed"] == ["queued"] and health["transitions"]["ready"] == []
    told = ana("GET", "/dashboard").data
    assert (told["dlqDepth"], told["statusDistribution"]["ready"]) == (1, 1)
    assert told["metrics"]["failureRate24h"] == 0.5
    assert ana("GET", "/stuck").data["data"] == []


def test_the_key_of_a_viewer_changes_nothing() -> None:
    viewer = program("acme", permissions=[VIEW_FILE], queues=list(QUEUES))
    assert viewer("GET", "/files").status_code == 200
    assert viewer("POST", "/batches", {"fileCount": 1}).status_code == 403


def test_a_search_in_the_address_filters_by_metadata(ana: Caller) -> None:
    file = ana.upload("a.md", b"# Lamp\n\nIt burns.")
    ana.upload("b.md", b"# Lamp\n\nIt burns no more.")
    process(4)
    ana("PATCH", "/files", {"files": [{"fileId": file, "metadata": {"year": 1890}}]})
    found = ana("GET", "/search?q=lamp&metadata=%7B%22year%22%3A1890%7D")
    assert [hit["fileId"] for hit in found.data["hits"]] == [file]
    for wrong in ("7", "%5B%5D", "%7B"):
        refused = ana("GET", f"/search?q=lamp&metadata={wrong}")
        assert (refused.status_code, refused.data["errorCode"]) == (422, "INVALID_REQUEST")
