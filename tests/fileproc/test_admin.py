"""The admin pages, the verbs, and the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

import jobs
from fileproc import numbers, verbs
from fileproc.models import Batch, File, Quota
from jobs.models import Audit
from tests.fileproc import documents
from tests.fileproc.conftest import process, upload

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_the_pages_show_uploads_documents_and_quotas(root: Client) -> None:
    for name in ("batch", "file", "quota"):
        empty = root.get(f"/admin/fileproc/{name}/")
        assert (
            empty.status_code == 200 and b"yet" in empty.content
        ) or b"no document" in empty.content
    [good, bad] = upload(("good.txt", b"words"), ("<b>bad</b>.pdf", b"%PDF-1.4 broken"))
    process()
    listed = root.get("/admin/fileproc/file/").content.decode()
    assert "good.txt" in listed and "&lt;b&gt;bad" in listed and "DAMAGED" in listed
    page = root.get(f"/admin/fileproc/file/{bad.pk}/change/").content.decode()
    assert "the document is damaged" in page and "extract" in page
    batch = root.get(f"/admin/fileproc/batch/{good.batch_id}/change/").content.decode()
    assert "1 ready, 1 failed of 2" in batch
    assert 'class="jd-fill-green"' in batch and 'class="jd-fill-red"' in batch
    uploads = root.get("/admin/fileproc/batch/").content.decode()
    assert '<b class="">1</b><span>Ready in 24 hours</span><small>1 failed</small>' in uploads
    only = root.get("/admin/fileproc/file/?state=failed").content.decode()
    assert "good.txt" not in only
    run = bad.runs.get(stage="extract")
    panel = root.get(f"/admin/jobs/job/{run.job_id}/change/").content.decode()
    assert "&lt;b&gt;bad" in panel


def test_a_live_list_of_uploads_does_not_count_the_last_day_again(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_day = Mock(return_value=numbers.Numbers(0, 0, None, 0, 0, 0))
    monkeypatch.setattr(numbers, "of_day", of_day)
    assert b"Ready in 24 hours" in root.get("/admin/fileproc/batch/").content
    of_day.assert_called_once_with(None)
    assert root.get("/admin/fileproc/batch/?_fragment=jd-plain").status_code == 200
    of_day.assert_called_once_with(None)


def test_a_document_is_retried_shown_and_deleted_by_verbs(root: Client) -> None:
    [good, bad] = upload(("good.txt", b"canary words"), ("bad.pdf", b"%PDF-1.4 broken"))
    process()
    url = f"/admin/fileproc/file/{bad.pk}/do/retry/"
    assert root.post(url, {"reason": "try"}).status_code == 302
    bad.refresh_from_db()
    assert bad.status == "queued"
    shown = root.post(f"/admin/fileproc/file/{good.pk}/do/show/", {"reason": "asked"})
    assert "no-store" in shown["Cache-Control"]
    text, _, chunks = shown.content.decode().partition("<h2>Chunks</h2>")
    assert "canary words" in text and "canary words" in chunks
    assert Audit.objects.filter(action="document.show", reason="asked").exists()
    root.post(f"/admin/fileproc/file/{good.pk}/do/delete/", {"reason": "asked"})
    assert not File.objects.shown().filter(pk=good.pk).exists()


def test_who_may_not_see_sees_nothing() -> None:
    [file] = upload(("good.txt", b"words"))
    user = User.objects.create_user("viewer", is_staff=True)
    client = Client()
    client.force_login(user)
    assert client.get("/admin/fileproc/file/").status_code == 403
    user.user_permissions.set(Permission.objects.filter(codename="view_file"))
    assert client.get(f"/admin/fileproc/file/{file.pk}/change/").status_code == 200
    answer = client.post(f"/admin/fileproc/file/{file.pk}/do/show/", {"reason": "curious"})
    assert answer.status_code == 403


def test_uploads_and_quotas_are_changed_by_verbs() -> None:
    [file] = upload(("a.txt", b"words"), count=3)
    verbs.seal(file.batch_id, by="root", reason="enough")
    assert Batch.objects.get().file_count == 1
    verbs.cancel(file.batch_id, by="root", reason="wrong")
    assert Batch.objects.get().status == "cancelled"
    verbs.set_quota("user:1", by="root", reason="more", bytes_limit=7)
    assert Quota.objects.get().bytes_limit == 7
    with pytest.raises(jobs.JobsError):
        verbs.retry(file.pk, by="root", reason="again")


def command(*arguments: str) -> str:
    out = io.StringIO()
    call_command("fileproc", *arguments, stdout=out)
    return out.getvalue()


def test_a_folder_is_uploaded_once_and_searched(tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_bytes(documents.MARKDOWN)
    (folder / "deep" / "b.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "c.exe").write_bytes(b"MZ")
    (folder / ".hidden.txt").write_bytes(b"x")
    told: Any = json.loads(command("upload", str(folder), "--owner=acme", "--json"))
    assert told == {"sent": 2, "there": 0, "retried": 0, "failed": 0, "refused": 1}
    assert set(File.objects.values_list("path", flat=True)) == {"papers", "papers/deep"}
    process()
    again = command("upload", str(folder), "--owner=acme")
    assert "1 there" in again and "1 failed" in again and "UNSUPPORTED_TYPE" in again
    retried = json.loads(command("upload", str(folder), "--owner=acme", "--retry-failed", "--json"))
    assert (retried["retried"], retried["sent"]) == (1, 0)
    process()
    found = command("search", "lighthouse", "--owner=acme")
    assert "a.md > Handbook > Duties" in found
    assert "nothing was found" in command("search", "lighthouse", "--owner=other")
    status = json.loads(command("status", "--owner=acme", "--json"))
    assert status["files"] == {"failed": 1, "ready": 1} and status["errors"] == {"DAMAGED": 1}


def test_the_check_tells_what_is_set_up() -> None:
    told = json.loads(command("check", "--json"))
    assert told["sandbox"] in ("full", "partial") and told["orphaned blobs"] == 0
    assert told["embedder"] == "ready"
    with pytest.raises(CommandError, match="no such file"):
        command("upload", "/nowhere/at/all", "--owner=acme")
