"""The demo's own judgement; ``tests/integration/test_demo.py`` runs it for real."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from jobs.cli import demo
from jobs.testing import freeze_clock, run_jobs

pytestmark = pytest.mark.django_db


def test_what_did_not_go_as_it_should_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    showing = demo._Demo("127.0.0.1:1", once=True)
    showing._ids = [demo._enqueue(scene) for scene in demo.SCENES]
    assert showing._sum_up() == 1
    assert f"0 of {len(demo.SCENES)} as they should" in capsys.readouterr().out


def test_what_went_as_it_should_is_exit_code_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deadly = {"example.crash", "example.stuck"}
    monkeypatch.setattr(demo, "SCENES", [s for s in demo.SCENES if s.kind not in deadly])
    showing = demo._Demo("127.0.0.1:1", once=True)
    with freeze_clock() as clock:
        showing._ids = [demo._enqueue(scene) for scene in demo.SCENES]
        for _ in range(5):
            run_jobs()
            clock.tick(2)
    assert showing._sum_up() == 0, capsys.readouterr().out


def test_the_demo_needs_debug(settings: Any) -> None:
    settings.DEBUG = False
    with pytest.raises(CommandError, match="it needs DEBUG=on"):
        call_command("jobs", "demo")


@pytest.mark.parametrize("password", ["first", "second"])
def test_the_user_is_made_or_reset(password: str) -> None:
    User.objects.create(username=demo.USER, is_active=False)
    demo._make_user(password)
    user = authenticate(username=demo.USER, password=password)
    assert isinstance(user, User) and user.is_superuser
