"""The coach's acts in the demo, with the venue that they bring along."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache

from config.demo.trading import TradingAct
from jobs import demo
from jobs.testing import freeze_clock, run_jobs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.slow
def test_every_act_ends_as_it_should(settings: Any, live_server: Any) -> None:
    cache.clear()
    acts = [kind("m", live_server.url) for kind in demo.of_apps() if issubclass(kind, TradingAct)]
    assert len(acts) == 5
    environment: dict[str, str] = {}
    try:
        for act in acts:
            environment |= act.prepare()
        key, secret = environment["AI_HMAC_KEY_ID"], environment["AI_HMAC_SECRET"]
        settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": environment["HTTP_ALLOW"].split(",")}
        settings.TRADING = {
            "COINBASE_URL": environment["COINBASE_URL"], "AI_BASE_URL": environment["AI_BASE_URL"],
            "AI_HMAC_KEY_ID": key, "AI_HMAC_SECRET": secret, "AI_KEYS": {key: secret},
        }  # fmt: skip
        with freeze_clock() as clock:
            for act in acts:
                act.begin()
            assert not any(act.is_over() for act in acts)
            for _ in range(8):
                run_jobs()
                for act in acts:
                    act.step()
                clock.tick(10)
        assert [act.title for act in acts if not act.is_over()] == []
        assert [act.verdict() for act in acts if not act.verdict()[0]] == []
    finally:
        for act in acts:
            act.leave()
