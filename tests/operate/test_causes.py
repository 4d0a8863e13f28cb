"""Causes: counted as jobs die, decided upon together, open again where they come back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs import testing
from jobs.errors import Denied, InvalidOption, NotAllowed, UnknownTarget
from jobs.models import Audit
from jobs.operate import causes
from jobs.outcomes import Fault
from jobs.principals import Principal, Scope
from tests.jobs.factories import a_claim, ended, row, settle, sql, state
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db
WHO: dict[str, Any] = {"by": "ann", "reason": "known"}
GONE = 'File "x.py", line 3, in f'


def die(message: str = "order 1 is gone", payload: Any = None, **options: Any) -> UUID:
    claim = a_claim(payload or Noop(), max_attempts=1, **options)
    settle(ended(claim, fault=Fault("E", message, GONE)))
    return claim.id


def test_what_died_of_the_same_is_one_cause_with_its_kinds_in_it() -> None:
    for number in range(3):
        die(f"order {number} is gone")
    die("order 17 is gone", Echo(text="x"))
    die("another thing")
    found = {cause.sample: cause for cause in causes.every(by="ann")}
    assert len(found) == 2
    one = next(cause for cause in found.values() if "order" in cause.sample)
    assert (one.count, one.open, one.kinds) == (4, 4, {"test.noop": 3, "test.echo": 1})
    assert one.first_at <= one.last_at and one.state == "open"


def test_jobs_that_die_together_are_counted_each() -> None:
    claims = [a_claim(max_attempts=1) for _ in range(5)]
    settle(*(ended(claim, fault=Fault("E", f"order {n}")) for n, claim in enumerate(claims)))
    [cause] = causes.every(by="ann")
    assert cause.count == 5


def test_a_resolved_cause_is_open_again_when_it_comes_back() -> None:
    die()
    [cause] = causes.every(by="ann")
    assert causes.resolve(cause.fingerprint, **WHO).state == "resolved"
    assert causes.every(by="ann") == []
    die("order 2 is gone")
    [again] = causes.every(by="ann")
    assert (again.state, again.reopened, again.count) == ("open", 1, 2)
    actions = list(Audit.objects.values_list("action", "outcome"))
    assert actions == [("cause.resolve", "done")]


def test_an_ignored_cause_is_silent_until_its_time_is_over() -> None:
    with testing.freeze_clock() as clock:
        die()
        [cause] = causes.every(by="ann")
        until = cause.last_at + timedelta(hours=1)
        causes.ignore(cause.fingerprint, until=until, **WHO)
        die()
        assert causes.every(by="ann") == []
        assert causes.find(cause.fingerprint, by="ann").count == 2
        clock.tick(3601)
        die()
        [again] = causes.every(by="ann")
        assert (again.state, again.ignored_until) == ("open", None)
        with pytest.raises(InvalidOption, match="until"):
            causes.ignore(cause.fingerprint, until=until, **WHO)


def test_what_cannot_be_decided_is_refused() -> None:
    die()
    mark = causes.every(by="ann")[0].fingerprint
    with pytest.raises(NotAllowed):
        causes.reopen(mark, **WHO)
    causes.resolve(mark, **WHO)
    for verb in (causes.resolve, causes.ignore):
        with pytest.raises(NotAllowed):
            verb(mark, **WHO)
    with pytest.raises(UnknownTarget):
        causes.resolve("nothing", **WHO)
    assert causes.reopen(mark, **WHO).state == "open"
    assert causes.note(mark, "see the runbook", by="ann").note == "see the runbook"
    with pytest.raises(InvalidOption):
        causes.note(mark, "x\x00", by="ann")
    with pytest.raises(InvalidOption):
        causes.every("odd", by="ann")


def test_all_of_a_cause_are_retried_or_discarded() -> None:
    first, second = die(), die("something else")
    marks = {c.sample: c.fingerprint for c in causes.every(by="ann")}
    causes.retry_all(marks["E: order 1 is gone"], **WHO)
    testing.run_jobs()
    assert (state(first), state(second)) == ("succeeded", "failed")
    causes.discard_all(marks["E: something else"], **WHO)
    testing.run_jobs()
    assert jobs.types.DeadLetter.objects.get(job_id=second).state == "discarded"
    made = causes.replay_all(marks["E: something else"], **WHO)
    testing.run_jobs()
    made.refresh_from_db()
    assert made.total == 0 and row(second).replayed_by is None


def test_a_scope_sees_its_own_part_and_decides_about_nothing_of_all() -> None:
    die(tenant="acme")
    theirs = die(tenant="other")
    who = Principal("kim", "api", scope=Scope(frozenset({"acme"})))
    [mine] = causes.every(by=who)
    assert (mine.count, mine.open) == (1, 1)
    with pytest.raises(UnknownTarget):
        causes.resolve(mine.fingerprint, by=who, reason="x")
    causes.discard_all(mine.fingerprint, by=who, reason="x")
    testing.run_jobs()
    assert jobs.types.DeadLetter.objects.get(job_id=theirs).state == "open"
    stranger = Principal("kim", "api", scope=Scope(frozenset({"none"})))
    with pytest.raises(UnknownTarget):
        causes.find(mine.fingerprint, by=stranger)


def test_deciding_needs_its_permission() -> None:
    die()
    mark = causes.every(by="ann")[0].fingerprint
    for verb in (causes.resolve, causes.ignore, causes.discard_all):
        with pytest.raises(Denied):
            verb(mark, by=Principal("kim", "api", frozenset()), reason="x")
    assert sql("SELECT state FROM jobs_cause") == [("open",)]
