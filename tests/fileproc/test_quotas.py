"""Quotas: what counts, under races too, and what callers and operators read of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test import Client
from django.utils import timezone

from fileproc import upkeep
from fileproc.errors import Refused
from fileproc.models import Batch, File, Quota
from fileproc.services import announcing, batches, deleting, quotas
from jobs import blobs
from jobs.models import DeadLetter
from jobs.operate import deadletters
from tests.fileproc import documents
from tests.fileproc.caller import user
from tests.fileproc.conftest import process, upload

OWNER = "user:1"


def quota(**limits: int) -> None:
    Quota.objects.update_or_create(owner=OWNER, defaults=limits)


def announce(size: int, batch: Batch | None = None) -> File:
    batch = batch or batches.create(OWNER, 9)
    made = batches.register(OWNER, batch.pk, announcing.Announced("a.txt", size))
    assert made.file is not None
    return made.file


@pytest.mark.django_db
def test_announced_and_stored_files_count_and_deleted_ones_do_not() -> None:
    file = announce(40)
    [stored] = upload(("b.txt", b"words"))
    assert quotas.used_bytes(OWNER) == 45
    process(4)
    assert quotas.used_bytes(OWNER) == 45
    deleting.delete(OWNER, stored.pk)
    assert quotas.used_bytes(OWNER) == 40
    Batch.objects.filter(pk=file.batch_id).update(expires_at=timezone.now())
    upkeep.expire_batches()
    assert quotas.used_bytes(OWNER) == 0, "it did not arrive"


@pytest.mark.django_db
def test_a_failed_file_counts_for_as_long_as_its_blob_is_there() -> None:
    [file] = upload(("a.pdf", b"%PDF-1.4 broken"))
    process(8)
    file.refresh_from_db()
    assert (file.status, quotas.used_bytes(OWNER)) == ("failed", file.size)
    old = timezone.now() - upkeep.KEEP_FAILED - timedelta(days=1)
    File.objects.update(ended_at=old)
    assert upkeep.let_go() == 0, "its dead letter is open"
    deadletters.discard_letter(DeadLetter.objects.get().pk, by="root", reason="a broken file")
    assert upkeep.let_go() == 1
    assert quotas.used_bytes(OWNER) == 0
    assert upkeep.remove_orphans() == 0, "it is younger than a day"
    assert blobs.store().head(file.blob_key) is not None


@pytest.mark.django_db
def test_blobs_of_a_cancelled_batch_go_after_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    [file] = upload(("a.txt", b"words"))
    batches.cancel(OWNER, file.batch_id, by="ana")
    assert upkeep.let_go() == 0
    File.objects.update(ended_at=F("ended_at") - timedelta(days=2))
    assert upkeep.let_go() == 1
    monkeypatch.setattr(upkeep, "ORPHAN", timedelta(0))
    assert upkeep.remove_orphans() == 1
    assert blobs.store().head(file.blob_key) is None


@pytest.mark.django_db
def test_a_batch_without_an_upload_for_an_hour_does_not_count() -> None:
    quota(batches_limit=2)
    first, second = batches.create(OWNER, 2), batches.create(OWNER, 2)
    with pytest.raises(Refused, match="there may be 2 open batches, and there are 2"):
        batches.create(OWNER, 1)
    Batch.objects.filter(pk=first.pk).update(used_at=timezone.now() - timedelta(minutes=61))
    third = batches.create(OWNER, 1)
    announce(1, first)
    assert quotas.open_batches(OWNER) == 3, "it is used again"
    for batch in (second, third):
        batches.cancel(OWNER, batch.pk, by="ana")
    assert quotas.open_batches(OWNER) == 1
    assert batches.create("user:2", 1).pk


@pytest.mark.django_db(transaction=True)
def test_requests_at_the_same_time_share_one_quota() -> None:
    quota(batches_limit=3, bytes_limit=50)

    def begin(_: int) -> bool:
        return _passes(lambda: batches.create(OWNER, 9))

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(begin, range(8))) == 3
        several = list(Batch.objects.all())
        done = threads.map(
            lambda n: _passes(lambda: announce(20, several[n % 3])), range(6)
        )  # fmt: skip
        assert sum(done) == 2
    assert quotas.used_bytes(OWNER) == 40


def _passes(act: Any) -> bool:
    try:
        act()
    except Refused as error:
        assert error.code == "QUOTA_EXCEEDED"
        return False
    finally:
        connection.close()
    return True


@pytest.mark.django_db
def test_answers_say_how_much_is_used() -> None:
    ana = user()
    Quota.objects.create(owner=f"user:{User.objects.get().pk}", bytes_limit=10)
    batch = ana("POST", "/batches", {"fileCount": 2}).data["batchId"]
    path = f"/batches/{batch}/upload-urls"
    assert ana("POST", path, {"fileName": "a.txt", "fileSize": 8}).status_code == 200
    full = ana("POST", path, {"fileName": "b.txt", "fileSize": 3})
    assert (full.status_code, full.data["errorCode"]) == (413, "QUOTA_EXCEEDED")
    assert (full.data["used"], full.data["limit"]) == (8, 10)
    assert "10 bytes; 8 bytes are used, 3 bytes more" in full.data["detail"]
    many = ana("POST", "/batches", {"files": [{"fileName": "b.txt", "sizeBytes": 3}]})
    assert many.status_code == 413 and Batch.objects.count() == 1, "nothing is half-written"
    assert ana("GET", "/dashboard").data["quota"] == {
        "bytesUsed": 8, "bytesLimit": 10, "openBatches": 1, "openBatchesLimit": 50,
    }  # fmt: skip


@pytest.mark.django_db
def test_the_admin_shows_what_each_owner_uses() -> None:
    upload(("a.pdf", documents.pdf("lamp")))
    upload(("b.txt", b"x" * 2048), owner="acme")
    root = Client()
    root.force_login(User.objects.create_superuser("root"))
    shown = root.get("/admin/fileproc/quota/").content.decode()
    assert "2.0\xa0KB" in shown
    one = root.get("/admin/fileproc/quota/acme/change/").content.decode()
    assert "2.0\xa0KB" in one
