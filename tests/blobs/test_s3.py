"""Blobs in S3: what is signed is what the server lets through."""

from __future__ import annotations

import hashlib
import io
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs import blobs, http
from jobs.blobs import S3Store
from jobs.http import HTTPStatusError
from tests.blobs import seaweed

pytestmark = pytest.mark.slow
BODY = b"%PDF-" + bytes(range(256)) * 4000
PDF = "application/pdf"


def call(
    method: str, url: str, body: bytes | None = None, **headers: str
) -> tuple[int, bytes, Any]:
    """What any client hears that was given the address."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, named, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def put(upload: blobs.Upload, body: bytes = BODY, **changes: str) -> int:
    return call("PUT", upload.url, body, **{**upload.headers, **changes})[0]


def test_a_blob_is_written_found_read_listed_and_deleted(s3: S3Store) -> None:
    assert s3.head("code/1.pdf") is None
    s3.write("code/1.pdf", b"older")
    assert s3.write("code/1.pdf", io.BytesIO(BODY)).size == len(BODY)
    s3.write("code/2.pdf", b"two")
    found = s3.head("code/1.pdf")
    assert found is not None and (found.key, found.size) == ("code/1.pdf", len(BODY))
    assert datetime.now(UTC) - found.written_at < timedelta(minutes=5)
    with s3.read("code/1.pdf") as pieces:
        assert b"".join(pieces) == BODY
    listed = {one.key: one.size for one in s3.list("code/")}
    assert listed == {"code/1.pdf": len(BODY), "code/2.pdf": 3}
    for key in listed:
        s3.delete(key)
    s3.delete("code/1.pdf")
    assert s3.head("code/1.pdf") is None and list(s3.list("code/")) == []
    with pytest.raises(FileNotFoundError), s3.read("code/1.pdf"):
        pass


def test_an_upload_has_the_signed_size_type_and_content(s3: S3Store) -> None:
    digest = hashlib.sha256(BODY).hexdigest()
    upload = s3.put_url("up/1.pdf", size=len(BODY), content_type=PDF, sha256=digest)
    assert put(upload, bytes(len(BODY))) == 400, "another content"
    assert put(upload, BODY[:-1], Content_Length=str(len(BODY) - 1)) == 403, "another length"
    assert put(upload, Content_Type="text/html") == 403
    assert s3.head("up/1.pdf") is None
    assert put(upload) == 200
    found = s3.head("up/1.pdf")
    assert found is not None and found.size == len(BODY)


def test_an_upload_replaces_nothing(s3: S3Store) -> None:
    upload = s3.put_url("once/1", size=3)
    assert put(upload, b"one") == 200
    assert put(upload, b"two") == 412
    without = {name: value for name, value in upload.headers.items() if name != "If-None-Match"}
    assert call("PUT", upload.url, b"two", **without)[0] == 403
    with s3.read("once/1") as pieces:
        assert b"".join(pieces) == b"one"


def test_an_address_is_good_for_its_method_key_and_time(s3: S3Store) -> None:
    s3.write("a", BODY)
    upload, url = s3.put_url("b", size=3), s3.get_url("a")
    assert call("GET", upload.url)[0] == 403
    assert call("DELETE", url)[0] == 403
    assert call("GET", url.replace("/a?", "/b?"))[0] == 403
    assert call("GET", url.split("?")[0])[0] == 403
    assert call("GET", url.replace("Expires=900", "Expires=9000"))[0] == 403


def test_a_download_is_an_attachment_of_the_signed_type(s3: S3Store) -> None:
    s3.write("a", BODY)
    url = s3.get_url("a", content_type=PDF, filename="Menü.pdf")
    status, body, headers = call("GET", url)
    assert (status, body) == (200, BODY)
    assert headers["Content-Type"] == PDF
    assert headers["Content-Disposition"] == "attachment; filename*=utf-8''Men%C3%BC.pdf"
    assert call("GET", url, Range="bytes=0-4")[:2] == (206, b"%PDF-")


def test_a_wrong_secret_is_an_error(s3: S3Store, bucket: seaweed.Server) -> None:
    stranger = bucket.store("another secret")
    for act in (
        lambda: stranger.write("x", b"1"),
        lambda: stranger.head("a"),
        lambda: stranger.delete("a"),
        lambda: list(stranger.list()),
    ):
        with pytest.raises(HTTPStatusError, match="status 403") as caught:
            act()
        assert "http" not in str(caught.value), "the address is signed"


def test_a_server_inside_needs_to_be_allowed(s3: S3Store, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": []}
    with pytest.raises(http.Blocked):
        s3.head("a")
