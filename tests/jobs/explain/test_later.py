"""What is said of jobs that are queued, blocked, running or ended, and in which forms."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command

import jobs
from jobs import conf
from jobs.engine import dispatch, leases, rq
from jobs.ids import uuid7
from jobs.models import Dependency, Effect
from jobs.operate.explain import Explanation, Reason, explain
from tests.jobs.explain.asking import NOON, SetClock, why
from tests.jobs.factories import (
    WORKER,
    a_claim,
    a_job,
    claim_again,
    ended,
    move,
    row,
    settle,
    sql,
    succeed,
)
from tests.specimens.handlers import Fail

pytestmark = pytest.mark.django_db


def test_a_job_that_is_not_there() -> None:
    nobody = uuid7()
    found = explain(nobody)
    assert (found.job_id, found.state, found.codes) == (nobody, None, ("not_found",))
    with pytest.raises(jobs.errors.InvalidOption, match="job_id: must be a UUID"):
        explain("x")  # type: ignore[arg-type]


# ---- blocked


def test_a_job_that_waits_for_its_parents() -> None:
    parents = sorted([a_job("running"), a_job("failed"), a_job("succeeded")])
    mine = a_job("blocked")
    for parent in parents:
        Dependency.objects.create(
            parent_id=parent, child_id=mine, policy="wait", done=row(parent).state == "succeeded"
        )
    sql("UPDATE jobs_job SET open_parents = 2 WHERE id = %s", [mine])
    waiting, stuck = explain(mine).reasons
    open_ = tuple(str(p) for p in parents if row(p).state != "succeeded")
    assert (waiting.code, waiting.ids) == ("parents", open_)
    assert "waits for 2 unfinished parents" in waiting.text and "(running)" in waiting.text
    assert stuck.code == "parents_not_succeeded"
    assert stuck.ids == tuple(str(p) for p in parents if row(p).state == "failed")


# ---- queued, and who would run it


def test_a_queued_job_says_how_many_are_before_it() -> None:
    first, second = a_job("queued"), a_job("queued")
    sql("UPDATE jobs_job SET queued_at = queued_at - interval '1 s' WHERE id = %s", [first])
    assert why(second).text == "queued, and waits for a free slot; 1 is before it"
    assert why(first).text == "queued, and waits for a free slot; 0 are before it"


@pytest.mark.parametrize("state", ["pending", "queued"])
def test_nobody_listens_and_nobody_dispatches(state: str) -> None:
    mine = a_job(state, queue="lonely")
    assert "no_worker" in explain(mine).codes
    assert "no_dispatcher" not in explain(mine).codes
    rq.client().delete(rq.dispatchers_key())
    assert explain(mine).codes[:2] == ("no_worker", "no_dispatcher")


def test_a_draining_worker_does_not_listen(surroundings: UUID) -> None:
    leases.drain([surroundings])
    assert why(a_job()).code == "no_worker"


def test_redis_is_away(no_redis: None) -> None:
    assert why(a_job()).code == "redis_away"


def test_a_dispatcher_that_runs_is_known_by_its_sign_of_life() -> None:
    rq.client().delete(rq.dispatchers_key())
    mine = a_job()
    assert explain(mine).codes == ("no_dispatcher",)
    dispatch.Dispatcher("d-1").round()
    assert "no_dispatcher" not in explain(mine).codes


# ---- running


def test_a_running_job(surroundings: UUID) -> None:
    claim = a_claim(owner=surroundings)
    reason = why(claim.id)
    assert reason.code == "running"
    assert reason.until == NOON + timedelta(seconds=claim.timeout)
    assert f"on {WORKER}, attempt 1" in reason.text


def test_a_running_job_that_was_asked_to_stop(surroundings: UUID) -> None:
    claim = a_claim(owner=surroundings)
    sql(
        "UPDATE jobs_job SET cancel_requested_at = jobs_clock(), cancel_by = 'ann', "
        "cancel_reason = 'wrong file', preempted_by = %s",
        [claim.id],
    )
    found = explain(claim.id)
    assert found.codes == ("running", "cancel_requested", "preemption_asked")
    assert "by ann: wrong file" in found.words


def test_a_job_of_a_silent_worker(surroundings: UUID, set_clock: SetClock) -> None:
    claim = a_claim(owner=surroundings)
    lease = conf.settings().LEASE
    sql("UPDATE jobs_job SET lease = %s WHERE id = %s", [lease + 10, claim.id])
    set_clock(NOON + timedelta(seconds=lease + 1))
    reason = why(claim.id)
    assert (reason.code, reason.until) == ("silent_worker", NOON + timedelta(seconds=lease + 10))
    assert f"held by {WORKER}, which has fallen silent; it is taken back after" in reason.text
    set_clock(NOON + timedelta(seconds=lease + 11))
    assert why(claim.id).text.endswith("it is about to be taken back")


# ---- ended


def test_a_job_that_succeeded() -> None:
    claim = a_claim()
    succeed(claim)
    assert why(claim.id).text == "succeeded at 2040-01-02 12:00:00 UTC in attempt 1"


def test_a_job_that_failed_says_why_and_who_has_to_decide() -> None:
    claim = claim_again(a_job("queued", Fail(), max_attempts=1))
    settle(ended(claim))
    failed, letter = explain(claim.id).reasons
    assert failed.text == (
        "failed for good at 2040-01-02 12:00:00 UTC (exhausted) after 1 attempt: "
        "ValueError: as told"
    )
    assert letter.code == "dead_letter" and len(letter.ids) == 1


def test_a_job_in_doubt() -> None:
    mine = a_job("failed")
    effect = Effect.objects.create(
        job_id=mine, key="mail", state="in_doubt", token=uuid7(), attempt=1
    )
    assert explain(mine).reasons[-1] == Reason(
        "in_doubt",
        "it is unknown whether its effects happened: a person has to decide",
        ids=(str(effect.pk),),
    )


def test_a_job_that_was_cancelled_or_expired() -> None:
    cancelled, expired = a_job(), a_job("expired")
    jobs.cancel(cancelled, by="ann", reason="wrong file")
    assert why(cancelled).text == "cancelled at 2040-01-02 12:00:00 UTC by ann: wrong file"
    assert why(expired).code == "expired"
    sql("UPDATE jobs_job SET replayed_by = %s WHERE id = %s", [cancelled, expired])
    assert explain(expired).reasons[-1].ids == (str(cancelled),)


# ---- its forms


def test_it_is_public_and_reads_only() -> None:
    mine = a_job(delay=60)
    before = sql("SELECT xmin::text FROM jobs_job WHERE id = %s", [mine])
    found = jobs.explain(mine)
    assert isinstance(found, Explanation)
    assert found.words == "not due before 2040-01-02 12:01:00 UTC"
    assert sql("SELECT xmin::text FROM jobs_job WHERE id = %s", [mine]) == before


def test_the_command_says_it_in_words_and_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    mine = a_job(delay=60)
    call_command("jobs", "explain", str(mine))
    assert capsys.readouterr().out == (
        f"{mine}  pending\n  not due before 2040-01-02 12:01:00 UTC\n"
    )
    call_command("jobs", "explain", str(mine), "--json")
    assert json.loads(capsys.readouterr().out) == {
        "job_id": str(mine),
        "state": "pending",
        "reasons": [
            {
                "code": "not_due",
                "text": "not due before 2040-01-02 12:01:00 UTC",
                "until": "2040-01-02T12:01:00+00:00",
                "ids": [],
            }
        ],
    }
    with pytest.raises(SystemExit) as end:
        call_command("jobs", "explain", str(uuid7()))
    assert end.value.code == 1
    with pytest.raises(CommandError, match="'x' is no job id"):
        call_command("jobs", "explain", "x")


def test_every_state_has_an_explanation() -> None:
    for state in jobs.JobState:
        mine = a_job(state)
        found = explain(mine)
        assert (found.state, bool(found.words)) == (state, True)
        assert json.loads(json.dumps(found.as_data()))["state"] == state
    move(mine, "pending")
    assert explain(mine).codes == ("turn",)


def test_every_code_is_documented() -> None:
    root = Path(jobs.__file__).parents[1]
    code = "".join(path.read_text() for path in (root / "jobs/operate/explain").glob("*.py"))
    codes = set(re.findall(r'\breason\(\s*"(\w+)"', code))
    codes |= {"paused", "blackout"}
    section = (root / "docs/flow-control.md").read_text().split("## Why does it not run?")[1]
    table = section.split("\n## ")[0]
    told = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert len(codes) > 20
    assert set(told) == codes and len(told) == len(codes)
