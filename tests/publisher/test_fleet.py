"""Real workers that die at every point of publishing: each post appears once."""

from __future__ import annotations

import os
import random
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from config.standins.publisher import Standin
from config.standins.publisher.server import Request
from publisher.connectors import tiktok, youtube
from publisher.models import Channel
from tests.integration.fleet import Fleet
from tests.publisher.press import Press
from tests.wait import wait_until

BOTH = ("before", "after")
CALLS = {
    "meta_facebook": ["publish"],
    "google_business": ["publish"],
    "wordpress_blog": ["publish"],
    "meta_instagram": ["container", "status", "status", "quota", "publish", "link"],
    "meta_instagram_stories": ["container", "status", "status", "quota", "publish", "link"],
    "tiktok": ["creator", "init", "chunk", "chunk", "last chunk", "status", "status"],
    "youtube": ["session", "portion", "portion", "last portion"],
    "linkedin": ["publish"],
    "x": ["publish"],
    "mastodon": ["limit", "publish"],
    "bluesky": ["publish"],
}
"""The calls of each channel that goes undisturbed."""
LAST = ("publish", "last chunk", "last portion")
"""The calls that make a post appear."""
NOTING = ("meta_instagram", "meta_instagram_stories", "tiktok", "youtube", "bluesky")
"""They note a container, an upload or a key, before they note that they publish."""
WAITING = ("meta_instagram", "meta_instagram_stories", "tiktok")
SILENT = "meta_facebook video"
SIZES = {"tiktok": tiktok.CHUNK * 3 + 17, "youtube": youtube.CHUNK * 2 + 17}


@pytest.fixture
def press(fleet: Fleet, server: Standin, tmp_path: Path) -> Iterator[Press]:
    server.reset()
    server.retry_after = 1
    fleet.query("TRUNCATE publisher_brand, jobs_breaker CASCADE")
    yield Press(fleet, server, tmp_path)
    fleet.end_programs()
    server.reset()


def points(channel: str) -> list[tuple[str, int, str]]:
    """Every point at which a post of the channel can be interrupted."""
    found = [("claim", 1, when) for when in BOTH]
    for number, call in enumerate(CALLS[channel], 1):
        # Before another call is after the one before it, whose answer has been noted.
        found += [("call", number, when) for when in (BOTH if call in LAST else BOTH[1:])]
    for number in range(1, 2 + (channel in NOTING)):
        found += [("keep", number, when) for when in BOTH]
    if channel in WAITING:
        found += [("wait", 1, when) for when in BOTH]
    return [*found, ("effect", 1, "after"), *(("finish", 1, when) for when in BOTH)]


def everything() -> list[tuple[str, tuple[str, int, str]]]:
    """Every point on every channel, and posts that cannot be found again."""
    found = [
        (channel, point)
        for channel in Channel.values
        for point in points(channel)
        # Stories go the way of other posts on Instagram.
        if channel != Channel.META_INSTAGRAM_STORIES or point[0] == "call"
    ]
    return [*found, *((SILENT, point) for point in points("meta_facebook"))]


def end_of(name: str, point: tuple[str, int, str]) -> tuple[str, int]:
    """How a post ends whose worker died there, and how often it appears."""
    if name == SILENT and (point[0] == "call" or point == ("keep", 1, "after")):
        return "in_doubt", int(point == ("call", 1, "after"))
    return "completed", 1


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_worker_that_dies_anywhere_publishes_once_or_asks(press: Press) -> None:
    every = everything()
    posts = press.hand_in([channel for channel, _ in every], brands=5, sizes=SIZES)
    for post, (_, point) in zip(posts, every, strict=True):
        press.plan_death(post, *point)
    press.start(processes=5)
    press.await_end(300)
    lived = [at for post, at in zip(posts, every, strict=True) if not press.has_killed(post)]
    assert lived == []  # every point was reached
    ends, seen = press.ends(), press.appeared(posts)
    found = [(*at, ends[post.id], seen[post.id]) for post, at in zip(posts, every, strict=True)]
    assert found == [(*at, *end_of(*at)) for at in every]
    assert press.standin.damaged == 0
    assert most_at_once(press.standin) == 1


@pytest.mark.slow
def test_an_upload_goes_on_in_the_middle_after_a_kill(press: Press) -> None:
    """The second of the portions has arrived when the worker dies: it is not sent again."""
    posts = press.hand_in(["tiktok", "youtube"], sizes=SIZES)
    for post, number in zip(posts, (4, 3), strict=True):
        press.plan_death(post, "call", number, "after")
    press.start(processes=2)
    press.await_end(60)
    assert all(press.has_killed(post) for post in posts)
    assert set(press.ends().values()) == {"completed"}
    sent = Counter(
        path.rpartition("/")[2] for method, path in press.standin.calls if method == "PUT"
    )
    [video] = [name for name in sent if name.startswith("v_pub")]
    [session] = [name for name in sent if not name.startswith("v_pub")]
    # One of YouTube's asks where the upload is.
    assert (sent[video], sent[session], press.standin.damaged) == (3, 4, 0)
    assert set(press.appeared(posts).values()) == {1}


def most_at_once(standin: Standin) -> int:
    """How many requests of one account were under way at once; media and uploads name none."""
    return max(count for token, count in standin.most.items() if token)


FAULTS = ("drop", "late", "garbage", "500", "503", "429")


def run_through(press: Press, number: int, kills: int, patience: float) -> None:
    """Posts whose providers answer as they like, on workers that are killed meanwhile."""
    chance = random.Random(7)
    names = [*Channel.values, SILENT]
    cut: set[str] = set()

    def script(request: Request) -> str:
        if request.service in ("media", "oauth") or chance.random() > 0.06:
            return ""
        fault = chance.choice(FAULTS)
        if fault != "429":
            cut.update(re.findall(r"post-[0-9]{5}-", str(request.body)))
        return fault

    press.standin.script = script
    posts = press.hand_in([names[n % len(names)] for n in range(number)], brands=9, closed=[0])
    worker = press.start(processes=3, concurrency=2)
    killed = 0

    def others_are_over() -> bool:
        """Kills an executor that has something to do, as long as there are kills left."""
        nonlocal killed
        if killed < kills and press.fleet.value(
            "SELECT count(*) FROM jobs_job WHERE state = 'running'"
        ):
            with suppress(ProcessLookupError):
                os.kill(chance.choice(press.fleet.executors(worker)), signal.SIGKILL)
            killed += 1
        return press.unfinished() == press.unfinished("brand:b0")

    wait_until(others_are_over, patience, 0.4, "every brand but one is done")
    assert press.unfinished("brand:b0") == sum(post.brand == 0 for post in posts)
    # A closed brand has called nobody.
    assert not any(token.startswith("token-0-0-") for token in press.standin.most)
    press.reopen()
    press.await_end(patience)
    ends, seen = press.ends(), press.appeared(posts)
    assert set(ends) == {post.id for post in posts}  # none is lost
    for post in posts:
        end, count = ends[post.id], seen[post.id]
        assert count <= 1, (post, end)
        if end == "in_doubt":
            assert post.channel == SILENT and (post.mark in cut or killed), post
        else:
            assert (end, count) in (("completed", 1), ("exhausted", 0)), (post, end, count)
    assert Counter(ends.values())["completed"] >= number * 0.8
    assert press.standin.damaged == 0 and most_at_once(press.standin) == 1
    print(number, killed, Counter(ends.values()))  # noqa: T201


@pytest.mark.soak
@pytest.mark.timeout(700)
def test_providers_that_misbehave_and_workers_that_die_publish_once(press: Press) -> None:
    run_through(press, 36, kills=2, patience=300)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_five_hundred_publications_with_faults_and_kills(press: Press) -> None:
    run_through(press, 500, kills=30, patience=900)
