"""Blobs in a bucket of S3, or of a server that speaks like it, by signed addresses."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import BinaryIO
from urllib.parse import quote
from xml.etree import ElementTree

from django.utils.http import content_disposition_header

from jobs import http
from jobs.blobs import base, sigv4
from jobs.blobs.base import Blob, Store, Upload
from jobs.errors import ConfigError

TOTAL = 3600.0
"""Seconds for the transfer of a blob."""
CALL = 30.0
"""Seconds for any other call, and how long its address is good."""
_MD5 = re.compile(r"[0-9a-f]{32}\Z")
_ONCE = {"If-None-Match": "*"}


class S3Store(Store):
    """A bucket. Its server is reached by ``jobs.http``: one inside needs ``JOBS["HTTP_ALLOW"]``.

    Addresses have the bucket in their path (``https://endpoint/bucket/key``). With ``any_key``,
    keys may be whatever others have chosen in their buckets.
    """

    def __init__(
        self, *, endpoint: str, bucket: str, region: str, key_id: str, secret: str,
        any_key: bool = False,
    ) -> None:  # fmt: skip
        if not endpoint.startswith(("https://", "http://")):
            raise ConfigError("the endpoint of S3 must begin with https:// or http://")
        self._endpoint = endpoint.rstrip("/")
        self._url = f"{self._endpoint}/{bucket}"
        self._key_id, self._secret, self._region = key_id, secret, region
        self._any_key = any_key

    def other(self, bucket: str) -> S3Store:
        """Return another bucket of the server, with whatever keys it has."""
        return S3Store(
            endpoint=self._endpoint, bucket=bucket, region=self._region, key_id=self._key_id,
            secret=self._secret, any_key=True,
        )  # fmt: skip

    @property
    def origin(self) -> str:
        return base.origin_of(self._url)

    def put_url(
        self,
        key: str,
        *,
        size: int,
        content_type: str = "application/octet-stream",
        sha256: str = "",
        expires: float | timedelta = 900,
    ) -> Upload:
        until = base.expiry(expires)
        headers = {
            "Content-Type": base.check_type(content_type),
            "Content-Length": str(base.check_size(size)),
            **_ONCE,
        }
        if base.check_sha256(sha256):
            digest = base64.b64encode(bytes.fromhex(sha256)).decode()
            headers["x-amz-checksum-sha256"] = digest
        return Upload(self._signed("PUT", key, until, headers=headers), headers, until)

    def get_url(
        self,
        key: str,
        *,
        content_type: str = "application/octet-stream",
        filename: str = "",
        expires: float | timedelta = 900,
    ) -> str:
        name = base.check_filename(filename)
        query = {
            "response-content-type": base.check_type(content_type),
            "response-content-disposition": content_disposition_header(True, name) or "attachment",
        }
        return self._signed("GET", key, base.expiry(expires), query=query)

    def head(self, key: str) -> Blob | None:
        answer = http.request("HEAD", self._signed("HEAD", key), total=CALL)
        if answer.status_code == 404:
            return None
        _check(answer)
        return _of_headers(key, answer.headers)

    def write(self, key: str, data: bytes | BinaryIO) -> Blob:
        size = len(data) if isinstance(data, bytes) else _left(data)
        headers = {"Content-Length": str(size)}
        content: bytes | Iterable[bytes] = (
            data if isinstance(data, bytes) else iter(lambda: data.read(base.PIECE), b"")
        )
        with http.client(total=TOTAL) as client:
            url = self._signed("PUT", key, base.expiry(TOTAL))
            answer = client.put(url, content=content, headers=headers)
        _check(answer)
        etag = answer.headers.get("ETag", "").strip('"')
        return Blob(key, size, etag, datetime.now(UTC))

    @contextmanager
    def read(self, key: str) -> Iterator[Iterator[bytes]]:
        url = self._signed("GET", key, base.expiry(TOTAL))
        with (
            http.client(total=TOTAL, max_bytes=base.MOST) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            if answer.status_code == 404:
                raise FileNotFoundError(key)
            _check(answer)
            yield answer.iter_bytes()

    def delete(self, key: str) -> None:
        answer = http.request("DELETE", self._signed("DELETE", key), total=CALL)
        if answer.status_code != 404:
            _check(answer)

    def list(self, prefix: str = "") -> Iterator[Blob]:
        query = {"list-type": "2", "prefix": prefix if self._any_key else base.check_prefix(prefix)}
        with http.client(total=CALL) as client:
            while True:
                answer = client.get(self._signed("GET", "", query=query))
                _check(answer)
                page = _parsed(answer.content)
                for item in page.iterfind("{*}Contents"):
                    yield _of_item(item)
                token = page.findtext("{*}NextContinuationToken")
                if not token:
                    return
                query["continuation-token"] = token

    def _signed(
        self,
        method: str,
        key: str,
        until: datetime | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> str:
        now = datetime.now(UTC)
        seconds = CALL if until is None else max((until - now).total_seconds(), 1)
        path = quote(key, safe="/-_.~") if self._any_key else key and base.check_key(key)
        url = f"{self._url}/{path}" if key else self._url
        return sigv4.presign(
            method, url, key_id=self._key_id, secret=self._secret, region=self._region, at=now,
            seconds=round(seconds), headers=headers, query=query,
        )  # fmt: skip


def _check(answer: http.Response) -> None:
    """Check that a call went well; the error does not repeat its address, which is signed."""
    if not answer.is_success:
        words = f"the server of the bucket answered with status {answer.status_code}"
        raise http.HTTPStatusError(words, request=answer.request, response=answer)


def _parsed(content: bytes) -> ElementTree.Element:
    if b"<!DOCTYPE" in content:  # entities could be expanded without an end
        raise ValueError("a list of S3 has no document type")
    return ElementTree.fromstring(content)  # noqa: S314 - it has no entities of its own


def _of_headers(key: str, headers: Mapping[str, str]) -> Blob:
    written, size = parsedate_to_datetime(headers["Last-Modified"]), int(headers["Content-Length"])
    etag = headers.get("ETag", "").strip('"')
    return Blob(key, size, etag, written, _md5(etag, headers))


def _md5(etag: str, headers: Mapping[str, str]) -> str:
    """Return the MD5 of a blob; empty where its tag is another one: of parts, or encrypted."""
    way = headers.get("x-amz-server-side-encryption", "AES256")
    is_sealed = way != "AES256" or "x-amz-server-side-encryption-customer-algorithm" in headers
    return etag if _MD5.match(etag) and not is_sealed else ""


def _of_item(item: ElementTree.Element) -> Blob:
    def text(name: str) -> str:
        return item.findtext(f"{{*}}{name}") or ""

    written = datetime.fromisoformat(text("LastModified"))
    return Blob(text("Key"), int(text("Size")), text("ETag").strip('"'), written)


def _left(file: BinaryIO) -> int:
    """Return how many bytes follow where the file stands."""
    here = file.tell()
    size = file.seek(0, os.SEEK_END) - here
    file.seek(here)
    return size
