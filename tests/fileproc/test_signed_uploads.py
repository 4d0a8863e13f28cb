"""PUTs to signed addresses, in a folder and in a bucket: what was signed is taken, once."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from fileproc import config
from fileproc.models import Content, File
from jobs import blobs
from jobs.blobs.s3 import _md5 as s3_md5
from tests.fileproc import documents
from tests.fileproc.caller import user
from tests.fileproc.conftest import process
from tests.fileproc.test_stores import announced, bucket, put, s3
from tests.wait import wait_until

__all__ = ["bucket", "s3"]  # fixtures
pytestmark = pytest.mark.django_db
BODY = documents.pdf("Nobody may row to the island in fog.")
OTHER = BODY[:-1] + b"!"
Put = Callable[..., int]


def put_here(place: dict[str, Any], data: bytes, **changes: str) -> int:
    """The status of a PUT to this site."""
    headers = {**place["headers"], **changes}
    answer: Any = Client().generic(
        "PUT", place["uploadUrl"], data, content_type=headers["Content-Type"]
    )
    return int(answer.status_code)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def send(request: pytest.FixtureRequest) -> Put:
    """How a client sends a PUT to the store."""
    if request.param == "local":
        return put_here
    request.getfixturevalue("s3")
    return put


def stored() -> list[str]:
    return [one.key for one in blobs.store().list("fileproc/")]


def test_what_was_not_signed_leaves_nothing(send: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = user()
    digest = hashlib.sha256(BODY).hexdigest()
    batch = announced(ana, BODY, OTHER, contentHash=digest)
    place, foreign = batch["files"]
    url = place["uploadUrl"]
    key = File.objects.get(pk=place["fileId"]).blob_key
    wrong = {
        "unsigned": url.partition("?")[0],
        "tampered": re.sub(r"(?i)(signature=)(...)", r"\g<1>zzz", url),
        "foreign": url.replace(key, key.rpartition("/")[0] + "/" + "0" * 32),
        "another batch": url.replace(batch["batchId"].replace("-", ""), "0" * 32),
        "longer lived": re.sub(r"(?i)(expires=)\d+", r"\g<1>9999999999", url),
    }  # fmt: skip
    for name, address in wrong.items():
        assert address != url, name
        assert send({**place, "uploadUrl": address}, BODY) in (400, 403), name
    length = {"Content-Length": str(len(BODY) + 4)}
    assert send(place, BODY + b"more", **length) in (400, 403), "too long"
    length = {"Content-Length": str(len(BODY) - 4)}
    assert send(place, BODY[:-4], **length) in (400, 403), "too short"
    assert send(place, OTHER) == 400, "another content"
    assert send(place, BODY, **{"Content-Type": "text/html"}) in (400, 403), "another type"
    monkeypatch.setattr(config, "URL_LIFETIME", timedelta(seconds=1))
    short = ana("POST", f"/batches/{batch['batchId']}/files/{foreign['fileId']}/upload-url").data
    with monkeypatch.context() as patch:
        end = time.time() + 2
        if send is put_here:
            patch.setattr("jobs.blobs.local.time.time", lambda: end)
        else:
            wait_until(lambda: time.time() > end)
        assert send(short, BODY) == 403, "late"
    assert stored() == []
    path = f"/batches/{batch['batchId']}/files/{place['fileId']}/confirm"
    assert ana("POST", path, {}).data["errorCode"] == "BLOB_NOT_FOUND"
    assert send(place, BODY) == 200
    assert stored() == [key]


def test_what_comes_after_the_confirmation_is_never_read(send: Put) -> None:
    ana = user()
    batch = announced(ana, BODY)
    [place] = batch["files"]
    assert send(place, BODY) == 200
    path = f"/batches/{batch['batchId']}/files/{place['fileId']}"
    assert ana("POST", f"{path}/confirm", {}).data["status"] == "queued"
    assert send(place, OTHER) in (409, 412)
    again = ana("POST", f"{path}/upload-url")
    assert (again.status_code, again.data["errorCode"]) == (409, "STATE_CONFLICT")
    process(4)
    file = File.objects.get()
    assert (file.status, file.sha256) == ("ready", hashlib.sha256(BODY).hexdigest())
    assert "island" in Content.objects.get().text
    assert send(place, OTHER) in (409, 412)


@pytest.mark.slow
@pytest.mark.usefixtures("s3")
def test_another_checksum_is_refused_at_once_where_the_bucket_knows_it() -> None:
    ana = user()
    batch = announced(ana, BODY)
    [place] = batch["files"]
    assert put(place, BODY) == 200
    path = f"/batches/{batch['batchId']}/files/{place['fileId']}"
    good = hashlib.md5(BODY).hexdigest()  # noqa: S324
    refused = ana("POST", f"{path}/confirm", {"md5": "0" * 32})
    assert (refused.status_code, refused.data["errorCode"]) == (409, "HASH_MISMATCH")
    assert File.objects.get().status == "registered"
    place = ana("POST", f"{path}/upload-url").data
    assert put(place, BODY) == 200
    assert ana("POST", f"{path}/confirm", {"md5": good.upper()}).data["status"] == "queued"


@pytest.mark.parametrize(
    ("etag", "headers", "is_md5"),
    [
        ("0" * 32, {}, True),
        ("0" * 32, {"x-amz-server-side-encryption": "AES256"}, True),
        ("0" * 32, {"x-amz-server-side-encryption": "aws:kms"}, False),
        ("0" * 32, {"x-amz-server-side-encryption-customer-algorithm": "AES256"}, False),
        ("0" * 32 + "-2", {}, False),
    ],
)
def test_a_tag_is_a_checksum_unless_parts_or_keys_change_it(
    etag: str, headers: dict[str, str], is_md5: bool
) -> None:
    assert s3_md5(etag, headers) == (etag if is_md5 else "")
