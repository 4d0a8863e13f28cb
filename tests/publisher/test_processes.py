"""Real workers that share a token, and one that uploads a large video."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.publisher.press import Press
from tests.publisher.test_fleet import press

__all__ = ["press"]  # a fixture
GIGABYTE = 1024**3
MOST = 32 * 1024**2


@pytest.mark.slow
def test_two_workers_with_one_stale_token_refresh_it_once(press: Press) -> None:
    settings = json.loads(press.env["FLEET_PUBLISHER"])
    settings["CHANNELS"] = {"google_business": {"PER_ACCOUNT": 2}}
    press.env["FLEET_PUBLISHER"] = json.dumps(settings)
    standin = press.standin
    token = "token-0-0-google_business"
    standin.expired.add(token)
    standin.meet_at("localPosts", 2)  # both have been refused before either asks for a new token
    posts = press.hand_in(["google_business"] * 2)
    press.start(processes=2)
    press.await_end(60)
    assert standin.most[token] == 2
    assert [path for _, path in standin.calls].count("") == 1  # of the address of tokens
    assert set(press.ends().values()) == {"completed"}
    assert set(press.appeared(posts).values()) == {1}
    assert press.fleet.value("SELECT count(*) FROM jobs_outbox WHERE topic LIKE '%%account%%'") == 0


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("channel", ["tiktok", "youtube"])
def test_a_video_of_a_gigabyte_costs_a_worker_little(press: Press, channel: str) -> None:
    worker = press.start(processes=1)
    [pid] = press.fleet.executors(worker)
    press.hand_in([channel], sizes={channel: 1_000_000})
    press.await_end(60)
    before = peak(pid)
    press.hand_in([channel], sizes={channel: GIGABYTE}, first=1)
    press.await_end(300)
    assert set(press.ends().values()) == {"completed"} and press.standin.damaged == 0
    assert press.fleet.executors(worker) == [pid]
    assert peak(pid) - before < MOST


def peak(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    [line] = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ]  # fmt: skip
    return int(line.split()[1]) * 1024
