"""Owners beside each other, and strangers without a signature, on real servers."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import quantiles
from time import monotonic
from typing import Any

import httpx
import psutil
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.fileproc import documents
from tests.fileproc.site import FAST, Site
from tests.integration.fleet import Fleet
from tests.wait import wait_until

PEOPLE = ("acme", "globex", "initech", "hooli", "umbrella")
TEN_GIGABYTES = 10 * 1024**3


def listen(site: Site, tenant: str) -> ClientConnection:
    """A socket with all that the owner may hear."""
    return connect(
        f"{site.url.replace('http', 'ws')}/ws/events", proxy=None, max_size=None,
        ping_interval=None,
        additional_headers={"Authorization": f"Bearer {site.keys[tenant]}"},
    )  # fmt: skip


def heard(line: ClientConnection, batch: str) -> list[dict[str, Any]]:
    """What was heard until the end of the owner's batch."""
    found: list[dict[str, Any]] = []
    while True:
        found += json.loads(line.recv(120)).get("events", [])
        if any(one["topic"] == "batch:completed" for one in found):
            return found


@pytest.mark.parametrize(
    "each", [pytest.param(6, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.soak)]
)
def test_five_owners_hear_and_find_their_own_alone(fleet: Fleet, tmp_path: Path, each: int) -> None:
    site = Site(fleet, tmp_path, owners=PEOPLE, settings=FAST)
    with ExitStack() as stack:
        lines = {who: stack.enter_context(listen(site, who)) for who in PEOPLE}
        batches = {who: site.batch(each, who) for who in PEOPLE}

        def upload(who: str) -> None:
            for n in range(each):
                site.upload(batches[who], f"{n}.txt", f"{who} lamp {n}".encode(), who)

        with ThreadPoolExecutor(5) as threads:
            list(threads.map(upload, PEOPLE))
        site.worker()
        with ThreadPoolExecutor(5) as threads:
            told = threads.map(lambda who: heard(lines[who], batches[who]), PEOPLE)
        for who, events in zip(PEOPLE, told, strict=True):
            keys = {one["key"] for one in events if one["key"].startswith("batch:")}
            assert keys == {f"batch:{batches[who]}"}
            ready = [one for one in events if one["payload"].get("to") == "ready"]
            assert len({one["payload"]["fileId"] for one in ready}) == len(ready) == each
    for who in PEOPLE:
        assert site.summary(batches[who], who) == {"total": each, "ready": each, "failed": 0}
        hits = site.call("POST", "/search", {"q": "acme globex hooli lamp", "limit": 50}, who)
        assert {hit["batchId"] for hit in hits["hits"]} == {batches[who]}
    feed = httpx.get(
        f"{site.url}/api/v1/events?since=0&batch={batches['acme']}", timeout=30,
        headers={"Authorization": f"Bearer {site.keys['globex']}"},
    )  # fmt: skip
    assert feed.status_code != 200 or feed.json()["data"] == []


@pytest.mark.slow
def test_ten_gigabytes_without_a_signature_leave_nothing(fleet: Fleet, tmp_path: Path) -> None:
    site = Site(fleet, tmp_path)
    [web] = [one for one in fleet.programs if one.name == "web"]
    batch = site.batch(1)
    asked = {"fileName": "a.pdf", "fileSize": 1000}
    url = site.call("POST", f"/batches/{batch}/upload-urls", asked)["uploadUrl"]
    before = _memory(web.pid)
    for address in (url.partition("?")[0], url.replace("size=1000", f"size={TEN_GIGABYTES}"), url):
        answer, sent = _pour(site, address)
        assert answer.startswith(b"HTTP/1.1 4"), answer[:200]
        assert sent < TEN_GIGABYTES // 10
    assert _memory(web.pid) - before < 100 * 1024**2
    stored = [one for one in (tmp_path / "blobs").rglob("*") if one.is_file()]
    assert stored == []


def _pour(site: Site, address: str) -> tuple[bytes, int]:
    """Send a body until there is an answer; return that, and how much was sent."""
    host, port = site.url.removeprefix("http://").split(":")
    sent, piece = 0, bytes(1024 * 1024)
    with socket.create_connection((host, int(port)), timeout=60) as line:
        head = (f"PUT {address} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/pdf\r\n"
                f"Content-Length: {TEN_GIGABYTES}\r\n\r\n")  # fmt: skip
        line.sendall(head.encode())
        line.setblocking(False)
        answer, end = b"", monotonic() + 60
        while not answer and sent < TEN_GIGABYTES and monotonic() < end:
            with suppress(BlockingIOError):
                answer = line.recv(4096)
            with suppress(BlockingIOError, ConnectionError):
                sent += line.send(piece)
    return answer, sent


def _memory(pid: int) -> int:
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(one.memory_info().rss for one in family)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("others", "pages", "samples"),
    [pytest.param(60, 60, 6, id="small"), pytest.param(200, 100, 20, id="whole")],
)
def test_an_owner_is_not_held_up_by_another_with_large_documents(
    fleet: Fleet, tmp_path: Path, others: int, pages: int, samples: int
) -> None:
    site = Site(fleet, tmp_path, settings=FAST)
    site.worker()
    site.worker()
    _took(site, 3)
    quiet = quantiles(_took(site, samples), n=20)[-1]
    flood = site.batch(others)
    large = " ".join(f"Word {n}." for n in range(400))
    for n in range(others):
        site.upload(flood, f"{n}.pdf", documents.pdf(*[f"{n} {large}"] * pages))
    beside = quantiles(_took(site, samples), n=20)[-1]
    assert sum(site.summary(flood).values()) < 2 * others, "the flood ended too early"
    assert beside <= 3 * quiet, (quiet, beside)


def _took(site: Site, count: int) -> list[float]:
    """Seconds from the confirmation of one-page PDFs to their end, one after another."""
    found = []
    for _ in range(count):
        batch = site.batch(1, "globex")
        text = f"Lamp {batch}."
        file = site.upload(batch, "a.pdf", documents.pdf(text), "globex")
        wait_until(lambda: site.summary(batch, "globex")["ready"], 120, 0.05)  # noqa: B023
        [took] = site.fleet.query(
            "SELECT extract(epoch FROM ended_at - confirmed_at)::float FROM fileproc_file "
            "WHERE id = %s", [file],
        )  # fmt: skip
        found.append(took[0])
    return found
