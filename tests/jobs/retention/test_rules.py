"""How long rows are kept: a time and a number together, and the rows that apps have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs import registry
from jobs.engine import retention
from jobs.models import DeadLetter
from jobs.retention import forget_sweeper
from tests.jobs.factories import a_job, claim_again, ended, settle
from tests.jobs.retention.sweeping import DAY, START, SetClock, left, sweep
from tests.jobs.retention.test_jobs import a_kind
from tests.specimens.handlers import Fail

pytestmark = pytest.mark.django_db


def test_a_kind_keeps_its_last_so_many_for_a_time(clock: SetClock) -> None:
    keep = jobs.retention.Keep(timedelta(days=7), last=2)
    with a_kind("test.both", keep_failed=keep, dead_letter=False) as both:
        old = a_job("failed", both())
        clock(START + 6 * DAY)
        made = sorted(a_job("failed", both()) for _ in range(3))
        a_job("failed")
        assert sweep() == {"jobs": 2}, "by number"
        assert old not in left() and made[0] not in left()
        clock(START + 13 * DAY + timedelta(seconds=1))
        assert sweep() == {"jobs": 2}, "by time"
        assert not left() & set(made)


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "expired"])
def test_a_kind_says_how_long_it_keeps_what_has_ended_so(clock: SetClock, state: str) -> None:
    rule = {"succeeded": "keep_completed"}.get(state, f"keep_{state}")
    options: dict[str, Any] = {rule: timedelta(days=2), "dead_letter": False}
    with a_kind("test.kept", **options) as kept:
        mine = {s: a_job(s, kept()) for s in ("succeeded", "failed", "cancelled", "expired")}
        others = {a_job(s) for s in mine}
        clock(START + 2 * DAY + timedelta(seconds=1))
        assert sweep() == {"jobs": 1}
        assert left() == {*mine.values(), *others} - {mine[state]}
        handler = registry.get("test.kept")
        assert [one for one in mine if handler.keep(one)] == [state]


def letters(state: str = "open") -> set[UUID]:
    return set(DeadLetter.objects.filter(state=state).values_list("job_id", flat=True))


def buried(payload: jobs.Payload) -> UUID:
    claim = claim_again(a_job("queued", payload, max_attempts=1))
    settle(ended(claim))
    return claim.id


def test_dead_letters_of_a_kind_have_their_own_time_and_number(clock: SetClock) -> None:
    keep = jobs.retention.Keep(timedelta(days=7), last=2)
    rules: dict[str, Any] = {"keep_failed": keep, "dead_letter_retention": keep, "max_attempts": 1}
    with a_kind("test.letters", **rules) as kind:
        made = []
        for second in range(4):
            clock(START + timedelta(seconds=second))
            made.append(buried(kind()))
        other = buried(Fail())
        stays = dict(DeadLetter.objects.values_list("job_id", "expires_at"))
        assert stays[made[0]] == START + 7 * DAY
        assert stays[other] == START + timedelta(days=30, seconds=3)
        assert sweep(dry_run=True)["deadletters expired"] == 2
        assert sweep()["deadletters expired"] == 2
        assert letters() == {*made[2:], other}
        assert left() == {*made[2:], other}, "their letters hold the jobs no longer"
        assert sweep() == {}
        clock(START + timedelta(days=7, seconds=4))
        assert sweep()["deadletters expired"] == 2
        assert letters() == left() == {other}


def test_a_number_alone_leaves_dead_letters_their_usual_time(clock: SetClock) -> None:
    with a_kind("test.letters", dead_letter_retention=1, max_attempts=1) as kind:
        first, second = buried(kind()), buried(kind())
        assert sweep() == {"deadletters expired": 1}
        assert (letters("expired"), letters()) == ({first}, {second})
        clock(START + timedelta(days=29))
        assert sweep() == {}
        clock(START + timedelta(days=30))
        assert sweep() == {"deadletters expired": 1}


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"keep_failed": -1}, "keep_failed must be a timedelta, a whole number"),
        ({"keep_completed": "a week"}, "keep_completed must be"),
        ({"dead_letter_retention": True}, "dead_letter_retention must be"),
        ({"dead_letter": False, "dead_letter_retention": 1}, "without dead letters"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(rules: dict[str, Any], told: str) -> None:
    with pytest.raises(jobs.errors.HandlerError, match=told), a_kind("test.wrong", **rules):
        pass
    for wrong in ({}, {"time": 7}, {"last": -1}, {"last": 1.5}, {"time": timedelta(-1)}):
        with pytest.raises(jobs.errors.HandlerError, match="must have a timedelta"):
            jobs.retention.Keep(**wrong)


# ---- what apps have


@pytest.fixture
def swept() -> Iterator[list[tuple[bool, int]]]:
    """A sweeper of an app's own, and how it was called."""
    calls: list[tuple[bool, int]] = []

    @jobs.retention.sweeper("test.rows")
    def clear(dry_run: bool, chunk: int) -> Iterator[dict[str, int]]:
        calls.append((dry_run, chunk))
        yield {"rows": 2}
        yield {"rows": 1}

    yield calls
    forget_sweeper("test.rows")


def test_rows_of_apps_go_in_the_same_sweep(swept: list[tuple[bool, int]]) -> None:
    assert sweep(dry_run=True) == {"rows": 3}
    assert sweep(chunk=7) == {"rows": 3}
    assert swept == [(True, retention.CHUNK), (False, 7)]
    with pytest.raises(jobs.errors.HandlerError, match="test_rules"):
        jobs.retention.sweeper("test.rows")(lambda dry_run, chunk: [])
    with pytest.raises(jobs.errors.HandlerError, match="sweeper: name"):
        jobs.retention.sweeper("no such name")


def test_a_sweeper_that_fails_keeps_no_other_from_going_on(
    swept: list[tuple[bool, int]], caplog: pytest.LogCaptureFixture, clock: SetClock
) -> None:
    @jobs.retention.sweeper("test.broken")
    def broken(dry_run: bool, chunk: int) -> Iterator[dict[str, int]]:
        raise ValueError("broken")

    try:
        a_job("succeeded")
        clock(START + 8 * DAY)
        assert sweep() == {"jobs": 1, "rows": 3}
    finally:
        forget_sweeper("test.broken")
    assert "sweeper test.broken failed" in caplog.text
