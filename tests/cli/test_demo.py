"""The demo's own judgement; ``tests/integration/test_demo.py`` runs it for real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

import jobs
from jobs.cli import demo, demo_desk, demo_flow
from jobs.cli.demo_desk import DESK
from jobs.cli.demo_flow import ACTS
from jobs.demo import Act, Verdict
from jobs.engine import admission
from jobs.errors import ConfigError
from jobs.testing import freeze_clock, run_jobs
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed apps test the acts that they bring along."""
    monkeypatch.setattr("jobs.demo.of_apps", lambda: [])


def test_what_did_not_go_as_it_should_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    showing = demo._Demo("127.0.0.1:1", once=True)
    showing._enqueue()
    assert not showing._is_over()
    assert showing._sum_up() == 1
    shown = len(demo.SCENES) + len(ACTS) + len(DESK)
    told = capsys.readouterr().out
    assert f"0 of {shown} as they should" in told and "no slot came" in told


def test_what_went_as_it_should_is_exit_code_0(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # These need processes, transactions, a dispatcher or a web server of their own.
    deadly = {"example.crash", "example.stuck", "example.wire"}
    alive = (demo_flow.APreemption, demo_flow.ACancel, demo_flow.ASchedule)
    monkeypatch.setattr(demo, "SCENES", [s for s in demo.SCENES if s.kind not in deadly])
    monkeypatch.setattr(demo, "ACTS", [act for act in ACTS if act not in alive])
    away = (demo_desk.AProgram, demo_desk.ADenial, demo_desk.ADrain)
    monkeypatch.setattr(demo, "DESK", [act for act in DESK if act not in away])
    monkeypatch.setattr(demo_flow.ABatch, "SECONDS", 0.0)
    monkeypatch.setattr(demo_desk.APause, "SECONDS", 0.0)
    showing = demo._Demo("127.0.0.1:1", once=True)
    admission.sync_limits()
    with freeze_clock() as clock:
        showing._enqueue()
        for _ in range(8):
            run_jobs()
            showing._watch()
            clock.tick(2)
    assert showing._is_over()
    assert showing._sum_up() == 0, capsys.readouterr().out


def test_a_rate_that_does_not_hold_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "SCENES", [])
    monkeypatch.setattr(demo, "ACTS", [demo_flow.AChain, demo_flow.ARate])
    monkeypatch.setattr(demo, "DESK", [])
    showing = demo._Demo("127.0.0.1:1", once=True)
    with freeze_clock():
        showing._enqueue()
        run_jobs()  # no dispatcher has brought the limits into force
    assert showing._is_over()
    assert showing._sum_up() == 1
    told = capsys.readouterr().out
    assert "1 of 2 as they should" in told and "6 starts in 0.0 s" in told


class AnAppsAct(Act):
    title = "an act of an app"
    queues = ("app-queue",)

    def prepare(self) -> Mapping[str, str]:
        return {"AN_APP": self.mark}

    def begin(self) -> None:
        self.ids = [jobs.enqueue(Noop()).id]

    def verdict(self) -> Verdict:
        return True, self.jobs()[0].state, "as an app likes it"


def test_an_app_brings_its_acts_along(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SCENES", "ACTS", "DESK"):
        monkeypatch.setattr(demo, name, [])
    monkeypatch.setattr("jobs.demo.of_apps", lambda: [AnAppsAct])
    showing = demo._Demo("127.0.0.1:1", once=True)
    commands = [" ".join(program.command) for program in showing._programs("127.0.0.1:1")]
    [mine] = [command for command in commands if "app-queue" in command]
    assert mine.endswith("--queues=app-queue")
    showing._enqueue()
    assert not showing._is_over()
    run_jobs()
    assert showing._is_over()
    assert showing._sum_up() == 0
    assert "as an app likes it" in capsys.readouterr().out


def test_an_act_that_kills_hits_no_other_app(monkeypatch: pytest.MonkeyPatch) -> None:
    class AKiller(AnAppsAct):
        queues = ("shaky-queue",)
        kills = True

    for name in ("SCENES", "ACTS", "DESK"):
        monkeypatch.setattr(demo, name, [])
    monkeypatch.setattr("jobs.demo.of_apps", lambda: [AnAppsAct, AKiller])
    showing = demo._Demo("127.0.0.1:1", once=True)
    commands = [" ".join(program.command) for program in showing._programs("127.0.0.1:1")]
    served = [command.partition("--queues=")[2] for command in commands]
    assert {"app-queue", "shaky-queue"} <= set(served)


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


def test_a_second_demo_is_refused_with_the_address_of_the_first() -> None:
    with demo._only_one("http://127.0.0.1:8123"):
        second = demo._only_one("http://127.0.0.1:8124")
        with pytest.raises(ConfigError, match=r"already at http://127\.0\.0\.1:8123; end it"):
            second.__enter__()
    with demo._only_one("http://127.0.0.1:8124"):
        pass
