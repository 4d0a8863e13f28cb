"""Doubts, stops and decisions: each operation ends, and says truly what the ERP has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

import jobs
from config.standins.erp.server import Erp
from jobs.testing import freeze_clock, lose_at_fence, run_jobs
from operations import payloads, verbs
from operations.errors import Refused
from operations.models import Agent, Login, Operation, Phase
from tests.operations.factories import agent as new_agent
from tests.operations.factories import ask, fetch, order, steps
from tests.wait import wait_until

pytestmark = pytest.mark.django_db


def settle(clock: Any, rounds: int = 8, seconds: int = 400) -> None:
    for _ in range(rounds):
        run_jobs(["erp-write", "erp-read"])
        clock.tick(seconds)


def orders(erp: Erp) -> int:
    return len(erp.book.data["orders"])


@pytest.mark.parametrize("is_saved", [True, False])
def test_an_undecided_write_is_looked_up_and_never_repeated(
    erp: Erp, agent: Agent, is_saved: bool
) -> None:
    """Its last attempt ends without an answer; a run that only asks decides."""
    fault = "drop_after_save" if is_saved else "drop_before_save"
    erp.script("ada", fault)
    row = ask("submit-order", order())
    jobs.flow.edit(row.pk, max_attempts=1, by="tests", reason="a test")
    with freeze_clock() as clock:
        settle(clock)
    row = fetch(row.pk)
    assert orders(erp) == is_saved
    if is_saved:
        assert (row.phase, row.erp_id) == (Phase.COMPLETED, "4711")
        assert steps(row)[-4:] == ["in_doubt", "erp_save_done", "db_committed", "completed"]
    else:
        assert (row.phase, row.error_code) == (Phase.FAILED, "exhausted")
        assert erp.calls["operations"] == 1


def test_an_erp_that_cannot_search_leaves_it_to_a_person(erp: Erp, agent: Agent) -> None:
    erp.script("ada", "drop_after_save")
    erp.can_search = False
    row = ask("submit-order", order())
    with freeze_clock() as clock:
        settle(clock)
        assert fetch(row.pk).phase == Phase.IN_DOUBT
        with pytest.raises(Refused, match="in_doubt"):
            verbs.retry(row.pk, by="tests", reason="a test")
        with pytest.raises(Refused, match="too late"):
            verbs.cancel(row.pk, by="tests", reason="a test")
        verbs.resolve(row.pk, "saved", by="tests", reason="seen in the ERP", erp_id="4711")
        settle(clock)
    assert fetch(row.pk).phase == Phase.COMPLETED and orders(erp) == 1


def test_a_person_can_say_that_nothing_was_saved(erp: Erp, agent: Agent) -> None:
    erp.script("ada", "drop_before_save")
    erp.can_search = False
    row = ask("submit-order", order())
    with freeze_clock() as clock:
        settle(clock)
        verbs.resolve(row.pk, "not_saved", by="tests", reason="not in the ERP")
        run_jobs(["erp-write"])
        assert fetch(row.pk).phase == Phase.FAILED
        verbs.retry(row.pk, by="tests", reason="once more")
        settle(clock)
    assert fetch(row.pk).phase == Phase.COMPLETED and orders(erp) == 1


@pytest.mark.parametrize("how", ["accept", "recheck"])
def test_a_mismatch_is_accepted_or_corrected(erp: Erp, agent: Agent, how: Any) -> None:
    erp.script("ada", "wrong_total", *(["wrong_total"] if how == "accept" else []))
    row = ask("submit-order", order())
    with freeze_clock() as clock:
        settle(clock)
        assert fetch(row.pk).phase == Phase.ERP_SAVE_DONE
        verbs.resolve(row.pk, how, by="tests", reason="spoke with them")
        settle(clock)
    assert fetch(row.pk).phase == Phase.COMPLETED and orders(erp) == 1


def test_nothing_that_the_erp_has_ends_as_failed(erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order())
    with freeze_clock() as clock, lose_at_fence(payloads.TASKS["submit-order"]):
        settle(clock)
    assert orders(erp) == 1 and fetch(row.pk).phase == Phase.COMPLETED


def test_what_waits_is_cancelled_at_once_and_can_be_retried(erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order())
    assert verbs.cancel(row.pk, by="tests", reason="changed their mind") == "cancelled"
    assert fetch(row.pk).phase == Phase.CANCELLED
    with pytest.raises(Refused, match="it is cancelled"):
        verbs.cancel(row.pk, by="tests", reason="again")
    verbs.retry(row.pk, by="tests", reason="changed it back")
    with pytest.raises(Refused, match="it is queued"):
        verbs.retry(row.pk, by="tests", reason="again")
    run_jobs(["erp-write"])
    assert fetch(row.pk).phase == Phase.COMPLETED


def test_the_operation_follows_its_job(erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order())
    jobs.cancel(row.pk, by="tests", reason="from the page of jobs")
    run_jobs(["erp-write"])
    assert fetch(row.pk).phase == Phase.CANCELLED
    jobs.retry(row.pk, by="tests")
    run_jobs(["erp-write"])
    assert fetch(row.pk).phase == Phase.COMPLETED


def test_a_login_is_tested_before_anything_else_tries_it(erp: Erp, agent: Agent) -> None:
    erp.book.data["passwords"]["ada"] = "another"
    row = ask("submit-order", order())
    with freeze_clock() as clock:
        settle(clock, 2)
        verbs.test_login(agent.pk, by="tests", reason="they say it is right")
        settle(clock, 3)
        assert (erp.calls["login"], Agent.objects.get().login) == (2, Login.REFUSED)
        with pytest.raises(Refused, match="refused"):
            verbs.resume(agent.pk, by="tests", reason="a test")
        verbs.change_login(agent.pk, "ada", "another", by="tests", reason="the new one")
        settle(clock, 3)
    assert fetch(row.pk).phase == Phase.COMPLETED
    assert Agent.objects.get().login == Login.GOOD


def test_a_paused_agent_waits_and_stopping_cancels_what_waits(erp: Erp, agent: Agent) -> None:
    verbs.pause(agent.pk, by="tests", reason="holiday")
    row = ask("submit-order", order())
    run_jobs(["erp-write"])
    assert fetch(row.pk).phase == Phase.QUEUED
    assert verbs.stop(agent.pk, by="tests", reason="all of it") == 1
    assert fetch(row.pk).phase == Phase.CANCELLED
    verbs.resume(agent.pk, by="tests", reason="back")


def test_stopping_a_type_that_does_not_exist_says_so(agent: Agent) -> None:
    with pytest.raises(Refused, match="did you mean 'submit-order'"):
        verbs.stop(agent.pk, by="tests", reason="a typo", type="submit-orders")


@pytest.mark.django_db(transaction=True)
def test_a_person_and_an_attempt_do_not_wait_for_each_other(erp: Erp, agent: Agent) -> None:
    row = ask("submit-order", order())

    def act() -> None:
        verbs.cancel(row.pk, by="tests", reason="changed their mind")
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():  # as an attempt does: its job first, then its operation
            jobs.Job.objects.select_for_update(no_key=True).get(pk=row.pk)
            done = pool.submit(act)
            wait_until(waits_for_a_lock)
            Operation.objects.select_for_update(nowait=True).get(pk=row.pk)
        done.result(30)
    assert fetch(row.pk).phase == Phase.CANCELLED


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
        return cursor.fetchone() is not None


def test_all_operations_of_a_type_are_stopped(erp: Erp, agent: Agent) -> None:
    new_agent("bea")
    rows = [ask("submit-order", order(), one) for one in ("ada", "bea")]
    other = ask("sync-customers", {})
    assert verbs.stop_type("submit-order", by="tests", reason="a wrong price list") == 2
    assert {fetch(row.pk).phase for row in rows} == {Phase.CANCELLED}
    assert fetch(other.pk).phase == Phase.QUEUED
    with pytest.raises(Refused, match="did you mean 'submit-order'"):
        verbs.stop_type("submit-orders", by="tests", reason="a typo")


def test_a_user_acts_for_one_agent(agent: Agent) -> None:
    user = User.objects.create_user("ada.rossi")
    new_agent("bea")
    verbs.link_user("ada", "ada.rossi", by="tests", reason="a new colleague")
    assert Agent.objects.get(pk="ada").user == user
    with pytest.raises(Refused, match="acts for ada"):
        verbs.link_user("bea", "ada.rossi", by="tests", reason="a mistake")
    with pytest.raises(Refused, match="no such user"):
        verbs.link_user("bea", "nobody", by="tests", reason="a mistake")
    verbs.link_user("ada", "", by="tests", reason="has left")
    assert Agent.objects.get(pk="ada").user is None
