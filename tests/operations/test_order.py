"""Writes to one order or customer keep their order, whatever becomes of the first."""

from __future__ import annotations

from typing import Any

import pytest

import jobs
from config.standins.erp.server import Erp
from jobs.testing import freeze_clock, run_jobs
from operations import verbs
from operations.models import Agent, Operation, Phase
from tests.operations.factories import ask, fetch, order

pytestmark = pytest.mark.django_db


def work(clock: Any, rounds: int = 8, seconds: int = 400) -> None:
    for _ in range(rounds):
        run_jobs(["erp-write"])
        clock.tick(seconds)


def edits(first_attempts: int) -> tuple[Operation, Operation]:
    """Two edits of one order; the first gives up after so many attempts."""
    ask("submit-order", order())
    run_jobs(["erp-write"])
    made = []
    for quantity in (2, 3):
        line = {"articleCode": "A-003", "quantity": quantity, "unitPrice": 5,
                "lineAmount": 5 * quantity}  # fmt: skip
        data = {"orderId": "4711", "updatedItems": [line], "version": quantity - 1}
        made.append(ask("edit-order", data))
    jobs.flow.edit(made[0].pk, max_attempts=first_attempts, by="tests", reason="a test")
    return made[0], made[1]


def quantity(erp: Erp) -> str:
    return str(erp.book.data["orders"]["4711"]["lines"][0]["quantity"])


@pytest.mark.parametrize("fault", ["drop_after_save", "500_after_save"])
def test_the_second_waits_until_the_first_is_decided(erp: Erp, agent: Agent, fault: str) -> None:
    with freeze_clock() as clock:
        first, second = edits(1)
        erp.script("ada", fault)
        work(clock)
    assert [fetch(one.pk).phase for one in (first, second)] == [Phase.COMPLETED] * 2
    assert quantity(erp) == "3"


def test_the_second_waits_until_the_first_is_read_back(erp: Erp, agent: Agent) -> None:
    """What the ERP has is finished before it is changed again, or it would seem to differ."""
    with freeze_clock() as clock:
        first, second = edits(1)
        erp.script("ada", "drop_read")
        work(clock)
    assert [fetch(one.pk).phase for one in (first, second)] == [Phase.COMPLETED] * 2
    assert fetch(first.pk).mismatch == [] and quantity(erp) == "3"


def test_a_person_decides_about_the_first_and_the_second_goes_on(erp: Erp, agent: Agent) -> None:
    with freeze_clock() as clock:
        first, second = edits(1)
        erp.can_search = False
        erp.script("ada", "drop_after_save")
        work(clock, 3)
        assert [fetch(one.pk).phase for one in (first, second)] == [Phase.IN_DOUBT, Phase.QUEUED]
        run_jobs(["erp-write"])
        assert "an earlier write to Order 4711 is undecided" in jobs.explain(second.pk).words
        verbs.resolve(first.pk, "saved", by="tests", reason="seen there", erp_id="4711")
        work(clock)
    assert [fetch(one.pk).phase for one in (first, second)] == [Phase.COMPLETED] * 2
    assert quantity(erp) == "3"


def test_a_mismatch_can_be_corrected_by_another_write(erp: Erp, agent: Agent) -> None:
    """It waits for a person, who may correct it with an operation of this app."""
    with freeze_clock() as clock:
        ask("submit-order", order())
        erp.script("ada", "wrong_total")
        work(clock, 2)
        line = {"articleCode": "A-003", "quantity": 2, "unitPrice": 5, "lineAmount": 10}
        row = ask("edit-order", {"orderId": "4711", "updatedItems": [line]})
        work(clock, 2)
    assert fetch(row.pk).phase == Phase.COMPLETED
