"""The publisher's scenes in the demo, with the stand-in that they bring along."""

from __future__ import annotations

import pytest

from config.demo.publisher import PostAct
from jobs import demo
from jobs.testing import freeze_clock, run_jobs
from tests.publisher.test_plans import relay

pytestmark = pytest.mark.django_db


def test_every_scene_ends_as_it_should() -> None:
    kinds = [kind for kind in demo.of_apps() if issubclass(kind, PostAct)]
    # Its worker would be this process; tests/integration/test_demo.py shows it.
    acts = [kind("m", "") for kind in kinds if not kind.kills]
    assert {kind.title for kind in kinds} == {
        "a video whose worker dies",
        "a post on three channels", "a reel", "a video in portions", "an approved plan",
        "a token that has expired", "a provider that publishes and does not answer",
        "a post that waits for the end of a blackout",
    }  # fmt: skip
    environment: dict[str, str] = {}
    try:
        for act in acts:
            environment |= act.prepare()
        assert environment == {"HTTP_ALLOW": "127.0.0.0/8"}
        with freeze_clock() as clock:
            for act in acts:
                act.begin()
            assert not any(act.is_over() or act.verdict()[0] for act in acts)
            told = []
            for _ in range(8):
                run_jobs()
                relay()
                told += [words for act in acts if (words := act.step())]
                clock.tick(11)
        assert sorted(told) == [
            "a provider that did not answer is asked whether the post has appeared",
            "the blackout ends; 0 of its posts appeared meanwhile",
        ]
        assert [act.title for act in acts if not act.is_over()] == []
        assert [act.verdict() for act in acts if not act.verdict()[0]] == []
    finally:
        for act in acts:
            act.leave()
    assert PostAct._standin is None
