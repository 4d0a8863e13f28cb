"""Whatever is done to a plan, in any order: only what was approved is ever sent, and once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.testing import freeze_clock, run_jobs
from publisher import plan_states, plan_verbs, plans, signals
from publisher.errors import Refused
from publisher.models import Account, Approval, Channel, Plan, Publication
from tests.publisher.test_plans import made, relay

pytestmark = pytest.mark.django_db
TEXTS, HOURS = ("Fresh bread", "Old bread"), (10, 11)
DUE = datetime(2031, 5, 2, tzinfo=UTC)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["submit", "approve", "reject", "schedule", "reopen"])),
    st.tuples(st.just("edit"), st.sampled_from(TEXTS)),
    st.tuples(st.just("move"), st.integers(0, 1), st.sampled_from(HOURS)),
    st.tuples(st.sampled_from(["add", "remove"])),
    st.tuples(st.just("run"), st.booleans()),
)
LEGAL = {
    "draft": {"ready"}, "ready": {"approved", "draft"}, "approved": {"scheduled", "draft"},
    "scheduled": {"published", "failed", "draft"}, "failed": {"scheduled"}, "published": set(),
}  # fmt: skip


def test_the_machine_has_these_edges_and_no_others() -> None:
    assert {state: set(plan_states.plan.ways(state)) for state in LEGAL} == LEGAL


@pytest.fixture
def publish() -> Any:
    """A receiver that publishes in place of the connector; what it has published."""
    sent: list[tuple[Any, str]] = []
    told = {"is_good": True}

    def receiver(sender: Any, job: Any, **_: Any) -> None:
        if told["is_good"]:
            sent.append((job.id, job.content["caption"]))
            job.mark_completed(f"post-{job.id}")
        else:
            job.mark_failed("no")

    signals.process_job.connect(receiver, sender=Channel.META_FACEBOOK)
    yield sent, told
    signals.process_job.disconnect(receiver, sender=Channel.META_FACEBOOK)


def _examples(most: int) -> settings:
    health = [HealthCheck.function_scoped_fixture]
    return settings(max_examples=most, deadline=None, suppress_health_check=health)


@_examples(4)
@given(steps=st.lists(STEPS, min_size=3, max_size=8))
def test_only_the_approved_text_is_sent_and_once(
    steps: list[tuple[Any, ...]], accounts: dict[str, Account], publish: Any
) -> None:
    _walk(steps, *publish)


@pytest.mark.slow
@_examples(40)
@given(steps=st.lists(STEPS, min_size=3, max_size=12))
def test_only_the_approved_text_is_sent_on_many_ways(
    steps: list[tuple[Any, ...]], accounts: dict[str, Account], publish: Any
) -> None:
    _walk(steps, *publish)


def _walk(steps: list[tuple[Any, ...]], sent: list[tuple[Any, str]], told: dict[str, bool]) -> None:
    """Take the steps after a plan was scheduled, and look at it after each."""
    sent.clear()
    with transaction.atomic():
        plan_id = made("meta_facebook", at="2031-05-01T10:00", content={"caption": TEXTS[0]})
        approved: set[str] = set()
        for step in [("submit",), ("approve",), ("schedule",), *steps]:
            before = Plan.objects.get(pk=plan_id)
            _do(plan_id, step, told)
            relay()
            after = Plan.objects.get(pk=plan_id)
            if step[0] == "approve" and after.status == "approved":
                approved.add(plans.draft_of(after).text)
            if after.status != before.status and step[0] != "run":
                assert after.status in LEGAL[before.status], (step, before.status, after.status)
            _check(after)
        assert {text for _, text in sent} <= approved
        assert len({post for post, _ in sent}) == len(sent)
        transaction.set_rollback(True)


def _do(plan_id: Any, step: tuple[Any, ...], told: dict[str, bool]) -> None:
    name, *values = step
    slots = list(Plan.objects.get(pk=plan_id).slots.order_by("id"))
    acts: dict[str, Callable[[], object]] = {
        "submit": lambda: plan_verbs.submit(plan_id, by="ada"),
        "approve": lambda: plan_verbs.approve(plan_id, by="bob"),
        "reject": lambda: plan_verbs.reject(plan_id, by="bob", note="no"),
        "schedule": lambda: plan_verbs.schedule(plan_id, by="ada"),
        "reopen": lambda: plan_verbs.reopen(plan_id, by="ada", reason="wrong"),
        "edit": lambda: plan_verbs.edit(plan_id, by="ada", caption=values[0]),
        "move": lambda: plan_verbs.move_slot(
            slots[values[0] % len(slots)].pk, f"2031-05-01T{values[1]}:00", by="ada"
        ),
        "add": lambda: plan_verbs.add_slot(plan_id, "meta_facebook", "2031-05-03T10:00", by="ada"),
        "remove": lambda: plan_verbs.remove_slot(slots[0].pk, by="ada"),
    }
    if name == "run":
        told["is_good"] = values[0]
        with freeze_clock(DUE):
            run_jobs(["publisher"])
    elif name not in ("move", "remove") or slots:
        with suppress(Refused):
            acts[name]()


def _check(plan: Plan) -> None:
    waiting = Publication.objects.filter(status__in=["pending", "running"])
    for row in waiting.select_related("slot", "plan_version"):
        assert plan.status == "scheduled"
        assert row.plan_version is not None and row.plan_version.number == plan.version
        assert row.slot.at == row.scheduled_at
    counts = Approval.objects.filter(
        version__plan=plan, version__number=plan.version, decision="approved", voided_at=None
    ).count()
    is_approved = plan.status in ("approved", "scheduled", "published", "failed")
    assert counts == int(is_approved), plan.status
    if plan.status == "published":
        statuses = {slot.publication and slot.publication.status for slot in plan.slots.all()}
        assert statuses == {"completed"}
