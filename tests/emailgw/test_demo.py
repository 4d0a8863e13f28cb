"""The gateway's acts in the demo, with the server that they bring along."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from config.demo.emailgw import EmailAct
from jobs import demo
from jobs.testing import freeze_clock, run_jobs
from tests.emailgw import factories

pytestmark = pytest.mark.django_db
TITLES = {
    "an email", "an email to a busy server", "an email to nobody", "an email without an answer"
}  # fmt: skip


def test_every_act_ends_as_it_should(settings: Any) -> None:
    acts = [kind("m", "") for kind in demo.of_apps() if issubclass(kind, EmailAct)]
    assert {act.title for act in acts} == TITLES
    environment: dict[str, str] = {}
    try:
        for act in acts:
            environment |= act.prepare()
        port = urlsplit(environment["SMTP_URL"]).port
        assert port
        settings.EMAILGW = factories.providers(port)
        told = []
        with freeze_clock() as clock:
            for act in acts:
                act.begin()
            assert not any(act.is_over() or act.verdict()[0] for act in acts)
            for _ in range(4):
                run_jobs()
                told += [act.step() for act in acts]
                clock.tick(2)
        assert all(act.is_over() for act in acts)
        assert [act.verdict() for act in acts if not act.verdict()[0]] == []
        [line] = filter(None, told)
        assert "a person decides" in line
    finally:
        for act in acts:
            act.leave()
    assert EmailAct._box is None
