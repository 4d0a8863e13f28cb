"""Small files, five in a second, for minutes: none is lost, and Redis does not grow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.fileproc.site import FAST, Site
from tests.integration.fleet import Fleet
from tests.wait import wait_until

A_SECOND = 5
GROWTH = 2 * 1024**2
"""Bytes by which Redis may grow after the first third: its own buffers."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "seconds", [pytest.param(60, id="a minute"), pytest.param(600, id="ten minutes")]
)
def test_five_files_a_second_all_end_ready_and_redis_stays_flat(
    fleet: Fleet, tmp_path: Path, seconds: int
) -> None:
    site = Site(fleet, tmp_path, settings=FAST)
    site.worker()
    memory: list[int] = []
    begun = time.monotonic()
    for second in range(seconds):
        _upload(site, second)
        memory.append(int(fleet.redis.info("memory")["used_memory"]))
        left = begun + second + 1 - time.monotonic()
        if left > 0:
            time.sleep(left)  # the pace is what is tested
    sent = A_SECOND * seconds
    rows = "SELECT count(*) FROM fileproc_file WHERE status IN ('ready', 'failed')"
    wait_until(lambda: fleet.value(rows) == sent, 120, message="all files end")
    failed = fleet.value("SELECT count(*) FROM fileproc_file WHERE status = 'failed'")
    assert failed < sent / 1000
    third = max(seconds // 3, 1)
    assert max(memory[third:]) <= max(memory[:third]) + GROWTH, memory[:: max(third // 5, 1)]
    late = fleet.value(
        "SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM "
        "ended_at - confirmed_at)) FROM fileproc_file"
    )
    assert late is not None and late < 60, "the stages keep up"


def _upload(site: Site, second: int) -> None:
    """Upload a batch of small files that nobody has sent before, and confirm it."""
    data = [f"Lamp {second} burns, {n}.".encode() for n in range(A_SECOND)]
    files = [
        {"tempId": str(n), "fileName": f"{second}-{n}.txt", "sizeBytes": len(one)}
        for n, one in enumerate(data)
    ]
    made: dict[str, Any] = site.call("POST", "/batches", {"files": files})
    for place, one in zip(made["files"], data, strict=True):
        stored = site.client.put(
            urljoin(site.url, place["uploadUrl"]), content=one,
            headers={"Content-Type": place["headers"]["Content-Type"]},
        )  # fmt: skip
        assert stored.status_code == 200, stored.text
    ids = [{"fileId": place["fileId"]} for place in made["files"]]
    done = site.call("POST", f"/batches/{made['batchId']}/confirm", {"files": ids})
    assert done["confirmed"] == A_SECOND
