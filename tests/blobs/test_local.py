"""A local store: what a signed address allows, and nothing else."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from django.test import Client

from jobs import blobs
from jobs.blobs import LocalStore, base
from jobs.blobs import local as files
from jobs.errors import ConfigError, InvalidOption

# The end of a request looks after connections of the database.
pytestmark = pytest.mark.django_db
KEY = "user-7/a_b.pdf"
PDF = "application/pdf"
BODY = b"%PDF-" + bytes(range(256)) * 40


def put(upload: blobs.Upload, body: bytes = BODY, **headers: str) -> Any:
    named = {**upload.headers, **headers}
    kind = named.pop("Content-Type")
    named.pop("Content-Length")
    return Client().put(upload.url, body, content_type=kind, headers=named)


def get(url: str, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Client().get(url, headers=named)


def content(response: Any) -> bytes:
    with closing(response):
        return b"".join(response.streaming_content)


def status(response: Any) -> int:
    with closing(response):
        return int(response.status_code)


def changed(url: str, **values: str) -> str:
    parts = urlsplit(url)
    query = {**dict(parse_qsl(parts.query)), **values}
    return f"{parts.path}?{urlencode(query)}"


def every_file(store: LocalStore) -> list[Path]:
    return [path for path in store._root.rglob("*") if path.is_file()]


def test_an_upload_is_there_when_it_is_whole(local: LocalStore) -> None:
    upload = local.put_url(KEY, size=len(BODY), content_type=PDF)
    assert local.head(KEY) is None
    response = put(upload)
    assert response.status_code == 200, response.content
    found = local.head(KEY)
    assert found is not None and (found.key, found.size) == (KEY, len(BODY))
    assert response["ETag"] == f'"{found.etag}"'
    assert datetime.now(UTC) - found.written_at < timedelta(minutes=1)
    with local.read(KEY) as pieces:
        assert b"".join(pieces) == BODY
    assert len(every_file(local)) == 1


def test_an_upload_replaces_nothing(local: LocalStore) -> None:
    upload = local.put_url(KEY, size=3)
    assert put(upload, b"one").status_code == 200
    again = put(upload, b"two")
    assert (again.status_code, again.json()["code"]) == (409, "exists")
    with local.read(KEY) as pieces:
        assert b"".join(pieces) == b"one"


def test_an_upload_whose_answer_was_lost_may_be_repeated(local: LocalStore) -> None:
    upload = local.put_url(KEY, size=3)
    first = put(upload, b"one")
    again = put(upload, b"one")
    assert (again.status_code, again["ETag"]) == (200, first["ETag"])
    assert len(every_file(local)) == 1


def test_of_two_at_once_one_is_kept(local: LocalStore) -> None:
    upload = local.put_url(KEY, size=3)
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(partial(put, upload), (b"one", b"two", b"six")))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    assert len(every_file(local)) == 1


def test_a_checksum_fixes_the_content(local: LocalStore) -> None:
    digest = hashlib.sha256(BODY).hexdigest()
    upload = local.put_url(KEY, size=len(BODY), sha256=digest)
    wrong = put(upload, bytes(len(BODY)))
    assert (wrong.status_code, wrong.json()["code"]) == (400, "checksum-mismatch")
    assert every_file(local) == []
    assert put(upload).status_code == 200


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ({"size": "99"}, "signature-invalid"),
        ({"type": "text/html"}, "signature-invalid"),
        ({"expires": "99999999999"}, "signature-invalid"),
        ({"sha256": "0" * 64}, "signature-invalid"),
        ({"signature": ""}, "signature-invalid"),
        ({"signature": "0" * 64}, "signature-invalid"),
    ],
)
def test_a_changed_address_is_refused(local: LocalStore, what: dict[str, str], code: str) -> None:
    upload = local.put_url(KEY, size=len(BODY), content_type=PDF)
    forged = blobs.Upload(changed(upload.url, **what), upload.headers, upload.expires_at)
    response = put(forged)
    assert (response.status_code, response.json()["code"]) == (403, code)
    assert not local._root.exists()


def test_an_address_is_good_for_its_method_and_key_only(local: LocalStore) -> None:
    upload = local.put_url(KEY, size=3)
    local.write(KEY, b"one")
    assert get(upload.url).json()["code"] == "signature-invalid"
    assert Client().head(upload.url).status_code == 403
    assert Client().delete(upload.url).status_code == 405
    url = local.get_url(KEY)
    download = blobs.Upload(url, upload.headers, upload.expires_at)
    assert put(download, b"two").json()["code"] == "signature-invalid"
    assert get(url.replace("user-7", "user-8")).json()["code"] == "signature-invalid"
    assert get(url.split("?")[0]).json()["code"] == "signature-invalid"


def test_an_address_expires(local: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    local.write(KEY, BODY)
    upload, url = local.put_url("other", size=3), local.get_url(KEY)
    later = time.time() + 901
    monkeypatch.setattr(time, "time", lambda: later)
    for response in (put(upload, b"one"), get(url)):
        assert (response.status_code, response.json()["code"]) == (403, "signature-expired")


def test_a_rotated_secret_key_keeps_addresses(local: LocalStore, settings: Any) -> None:
    local.write(KEY, BODY)
    url = local.get_url(KEY)
    settings.SECRET_KEY, old = "x" * 50, settings.SECRET_KEY
    assert get(url).status_code == 403
    settings.SECRET_KEY_FALLBACKS = [old]
    assert content(get(url)) == BODY


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (b"12", {}, "length-mismatch"),
        (b"1234", {}, "length-mismatch"),
        (b"", {}, "length-required"),
        (b"123", {"Content-Type": "text/html"}, "type-mismatch"),
    ],
)
def test_what_comes_is_what_was_signed(
    local: LocalStore, body: bytes, headers: dict[str, str], code: str
) -> None:
    response = put(local.put_url(KEY, size=3, content_type=PDF), body, **headers)
    assert response.status_code in (400, 411) and response.json()["code"] == code
    assert local.head(KEY) is None


def test_a_download_is_an_attachment_of_the_signed_type(local: LocalStore) -> None:
    local.write(KEY, b"<script>")
    url = local.get_url(KEY, content_type="text/html", filename="Menü.html")
    response = get(url)
    assert content(response) == b"<script>"
    assert response["Content-Type"] == "text/html"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Disposition"] == "attachment; filename*=utf-8''Men%C3%BC.html"
    assert response["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert "no-store" in response["Cache-Control"]
    assert get(changed(url, filename="x.exe")).status_code == 403
    plain = get(local.get_url(KEY))
    assert (status(plain), plain["Content-Disposition"]) == (200, "attachment")


@pytest.mark.parametrize(
    ("wanted", "status", "part"),
    [
        ("bytes=0-3", 206, BODY[:4]),
        ("bytes=4-", 206, BODY[4:]),
        ("bytes=-5", 206, BODY[-5:]),
        ("bytes=0-999999", 206, BODY),
        ("bytes=-999999", 206, BODY),
        (f"bytes={len(BODY) - 1}-", 206, BODY[-1:]),
        (f"bytes={len(BODY)}-", 416, b""),
        ("bytes=-0", 416, b""),
        ("bytes=5-2", 200, BODY),
        ("bytes=-", 200, BODY),
        ("bytes=0-1,3-4", 200, BODY),
        ("pages=1-2", 200, BODY),
        ("bytes=" + "9" * 30 + "-", 200, BODY),
    ],
)
def test_parts_can_be_asked_for(local: LocalStore, wanted: str, status: int, part: bytes) -> None:
    local.write(KEY, BODY)
    response = get(local.get_url(KEY), Range=wanted)
    assert response.status_code == status
    if status == 416:
        assert response["Content-Range"] == f"bytes */{len(BODY)}"
        return
    assert content(response) == part
    assert int(response["Content-Length"]) == len(part)
    assert ("Content-Range" in response) == (status == 206)


def test_a_part_of_another_version_is_the_whole(local: LocalStore) -> None:
    local.write(KEY, BODY)
    url, etag = local.get_url(KEY), local.head(KEY).etag  # type: ignore[union-attr]
    assert status(get(url, Range="bytes=0-3", If_Range=f'"{etag}"')) == 206
    assert status(get(url, Range="bytes=0-3", If_Range='"older"')) == 200


def test_a_head_has_no_body(local: LocalStore) -> None:
    local.write(KEY, BODY)
    response = Client().head(local.get_url(KEY))
    assert (response.status_code, response["Content-Length"]) == (200, str(len(BODY)))
    assert response.content == b""


def test_what_is_not_there_is_404(local: LocalStore) -> None:
    assert get(local.get_url("absent")).status_code == 404
    local.write("a", b"1")
    assert local.head("a/b") is None
    with pytest.raises(FileNotFoundError), local.read("a/b"):
        pass
    local.delete("a/b")
    local.delete("absent")


@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", ".incoming/x", "a/.b", "a\0b", "a b", "ä",
     "a" * 513, "-a", "a\n", None, 7],
)  # fmt: skip
def test_keys_stay_inside(local: LocalStore, key: Any) -> None:
    acts: list[Callable[[], Any]] = [
        lambda: local.put_url(key, size=1),
        lambda: local.get_url(key),
        lambda: local.write(key, b""),
        lambda: local.head(key),
        lambda: local.open(key),
        lambda: local.delete(key),
    ]
    for act in acts:
        with pytest.raises(InvalidOption, match="key"):
            act()


@pytest.mark.parametrize(
    "wrong",
    [{"size": 0}, {"size": base.MOST + 1}, {"size": "5"}, {"content_type": "text/html\r\nX: y"},
     {"content_type": "text"}, {"sha256": "abc123"}, {"expires": 0}, {"expires": 700_000}],
)  # fmt: skip
def test_options_are_checked(local: LocalStore, wrong: dict[str, Any]) -> None:
    [name] = wrong
    with pytest.raises(InvalidOption, match=name):
        local.put_url(KEY, **{"size": 5, **wrong})


@pytest.mark.parametrize("name", ["a/b", 'a"b', "a\r\nX: y", "a" * 256])
def test_names_of_downloads_are_checked(local: LocalStore, name: str) -> None:
    with pytest.raises(InvalidOption, match="filename"):
        local.get_url(KEY, filename=name)


def test_code_replaces_lists_and_deletes(local: LocalStore, tmp_path: Path) -> None:
    for key in ("a/1", "a/2", "ab/3", "b"):
        local.write(key, key.encode())
    local.write("a/1", b"again")
    assert {one.key: one.size for one in local.list()} == {"a/1": 5, "a/2": 3, "ab/3": 4, "b": 1}
    assert {one.key for one in local.list("a/")} == {"a/1", "a/2"}
    assert {one.key for one in local.list("a")} == {"a/1", "a/2", "ab/3"}
    assert list(local.list("none/")) == []
    local.delete("a/1")
    assert local.head("a/1") is None
    source = tmp_path / "source"
    source.write_bytes(BODY)
    with source.open("rb") as file:
        file.seek(5)
        assert local.write("part", file).size == len(BODY) - 5


def test_a_key_is_no_folder_of_others(local: LocalStore) -> None:
    local.write("a/b", b"1")
    assert local.head("a") is None and status(get(local.get_url("a"))) == 404
    assert put(local.put_url("a", size=1), b"x").json()["code"] == "exists"
    assert put(local.put_url("a/b/c", size=1), b"x").json()["code"] == "exists"
    for key in ("a", "a/b/c"):
        with pytest.raises(files.Exists):
            local.write(key, b"2")
    with pytest.raises(FileNotFoundError), local.read("a"):
        pass
    assert len(every_file(local)) == 1


def test_a_write_that_fails_leaves_nothing(local: LocalStore) -> None:
    def pieces() -> Any:
        yield b"half"
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        local.receive(KEY, pieces())
    assert every_file(local) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_507_and_leaves_nothing(
    local: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    upload = local.put_url(KEY, size=len(BODY))

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        refused = put(upload)
    assert (refused.status_code, refused.json()["code"]) == (507, "storage-full")
    assert every_file(local) == []
    assert put(upload).status_code == 200


def test_what_a_killed_process_left_goes(local: LocalStore) -> None:
    local.write("a", b"1")
    left = local._root / files.INCOMING / "left"
    left.write_bytes(b"half")
    local.write("b", b"2")
    assert left.exists(), "somebody may write it still"
    old = time.time() - files.ABANDONED - 1
    os.utime(left, (old, old))
    local.write("c", b"3")
    assert not left.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "is empty"),
        ({"STORE": "disk"}, "'local' or 's3'"),
        ({"STORE": "local"}, "'ROOT'"),
        ({"STORE": "local", "ROOT": "/x", "BUCKET": "b"}, "'BUCKET'"),
        ({"STORE": "s3", "ENDPOINT": "https://s3"}, "'BUCKET'"),
        ({"STORE": "s3", "ENDPOINT": "s3", "BUCKET": "b", "REGION": "r", "KEY_ID": "k",
          "SECRET": "s"}, "https"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(settings: Any, options: dict[str, Any], problem: str) -> None:
    settings.JOBS = {**settings.JOBS, "BLOBS": options}
    with pytest.raises(ConfigError, match=problem):
        blobs.store()
