"""What ``manage.py jobs outbox`` prints and does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import jobs
from jobs.models import Outbox
from jobs.testing import emitted

pytestmark = pytest.mark.django_db


def outbox(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    call_command("jobs", "outbox", *arguments)
    return capsys.readouterr().out


def test_what_is_stuck_is_listed_and_decided(capsys: pytest.CaptureFixture[str]) -> None:
    for topic in ("a.1", "a.2"):
        jobs.emit(topic, {}, key="a")
    first = str(Outbox.objects.get(topic="a.1").id)
    assert outbox(capsys, "list") == "Nothing is stuck.\n"
    outbox(capsys, "park", first, "--reason=wrong")
    assert emitted("a.*") == []
    line = outbox(capsys, "list").splitlines()[1]
    assert line.split() == [first, "a.1", "parked", "a", "1", "0"]
    [found] = json.loads(outbox(capsys, "list", "--json"))
    assert (found["number"], found["holds_back"]) == (int(first), 1)
    outbox(capsys, "publish", first, "--reason=right")
    assert [event.topic for event in emitted("a.*")] == ["a.1", "a.2"]


def test_a_discarded_event_is_gone_for_good(capsys: pytest.CaptureFixture[str]) -> None:
    jobs.emit("a.1", {})
    number = str(Outbox.objects.get().id)
    outbox(capsys, "discard", number, "--reason=no use")
    assert "discarded" in outbox(capsys, "list", "--state=discarded")
    assert emitted() == []
    with pytest.raises(CommandError, match="it is discarded"):
        outbox(capsys, "park", number, "--reason=x")


@pytest.mark.parametrize("arguments", [("park", "1"), ("park", "x", "--reason=y"), ("lose",)])
def test_a_wrong_call_is_refused(arguments: Any) -> None:
    with pytest.raises(CommandError):
        call_command("jobs", "outbox", *arguments)
