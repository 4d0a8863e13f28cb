"""Nobody reaches farther than his scope and his permissions, by whatever way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs import JobState
from jobs.errors import Denied, InvalidOption, UnknownTarget
from jobs.operate import (
    apikeys,
    batchacts,
    batches,
    bulk,
    bulkseen,
    causes,
    outbox,
    overview,
    pauses,
    schedules,
    search,
)
from jobs.operate.explain import explain
from jobs.outcomes import Fault
from jobs.principals import ALL, Principal, Scope
from tests.jobs import factories
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
OF_Q = Principal("quentin", "api", scope=Scope(queues=frozenset({"q"})))


def of_tenant(name: str, *, is_staff: bool = True) -> Principal:
    return Principal("tina", "api", scope=Scope(tenants=frozenset({name})), is_staff=is_staff)


def test_members_of_a_batch_in_other_queues_stay_as_they_are() -> None:
    batch = batches.batch("mixed")
    seen, hidden = (batch.add(Noop(), queue=queue).id for queue in ("q", "other"))
    batch.seal()

    assert batchacts.cancel_rest(batch.id, by=OF_Q, reason="a test") == 1

    assert factories.row(seen).state == JobState.CANCELLED
    assert factories.row(hidden).state == JobState.PENDING


def test_failed_members_of_a_batch_in_other_queues_are_not_retried() -> None:
    batch = batches.batch("mixed")
    ids = [batch.add(Noop(), queue=queue, max_attempts=1).id for queue in ("q", "other")]
    batch.seal()
    for job_id in ids:
        factories.settle(factories.ended(factories.claim_again(job_id)))

    assert batchacts.retry_failed(batch.id, by=OF_Q, reason="a test") == 1

    assert [factories.row(job_id).state for job_id in ids] == [JobState.PENDING, JobState.FAILED]


def test_a_bulk_edit_moves_jobs_to_no_queue_outside_the_scope() -> None:
    job_id = jobs.enqueue(Noop(), queue="q").id

    with pytest.raises(InvalidOption, match="there is no queue 'other'"):
        bulk.preview("edit", ids=[job_id], by=OF_Q, queue="other")
    with pytest.raises(InvalidOption, match="there is no queue 'other'"):
        bulk.start("edit", ids=[job_id], by=OF_Q, reason="a test", queue="other")

    assert bulk.start("edit", ids=[job_id], by=OF_Q, reason="a test", queue="q").total == 1


def test_whoever_may_not_cancel_does_not_carry_on_a_bulk_that_cancels() -> None:
    made = bulk.start("cancel", ids=[jobs.enqueue(Noop()).id], by="tests", reason="a test")
    may_bulk = Principal("bob", "api", permissions=frozenset({"run_bulk"}))

    with pytest.raises(Denied, match="cancel_job"):
        bulk.proceed(made.id, by=may_bulk, reason="a test")


def test_whoever_sees_one_queue_is_told_nothing_of_others_on_the_first_page() -> None:
    factories.sql("INSERT INTO jobs_queue (name) VALUES ('other'), ('q') ON CONFLICT DO NOTHING")
    batches.batch("secret batch").add(Noop(), queue="other")
    for scope in ("queue:other", "tenant:x"):
        pauses.pause(scope, by="tests", reason="secret pause")
    pauses.pause("queue:q", by="tests", reason="known pause")
    factories.settle(factories.ended(factories.a_claim(max_attempts=1)))
    schedules.create("secret", Noop(), cron="0 3 * * *", queue="other", by="tests", reason="a test")
    factories.sql("UPDATE jobs_schedule SET error = 'secret error'")

    found, whole = overview.overview(by=OF_Q), overview.overview(by="tests")

    assert "secret" not in repr(found) and "known pause" in repr(found)
    assert repr(whole).count("secret") > 3
    assert (found.tiles["dead"].value, whole.tiles["dead"].value) == (0, 1)


def test_the_sample_of_a_cause_is_nobody_elses_error() -> None:
    for tenant, number in (("b", "4711"), ("a", "42")):
        claim = factories.a_claim(tenant=tenant, max_attempts=1)
        fault = Fault("ValueError", f"no account {number}", 'File "x.py", line 3, in f')
        factories.settle(factories.ended(claim, fault=fault))

    [cause] = causes.every(by=of_tenant("a"))
    assert (cause.sample, cause.count) == ("ValueError: no account 42", 1)
    assert causes.every(by="tests")[0].sample == "ValueError: no account 4711"

    factories.sql(
        "UPDATE jobs_deadletter SET state = 'discarded', closed_at = jobs_clock(), moved_by = 'x'"
    )
    assert causes.every(by=of_tenant("a"))[0].sample == "ValueError"


def test_events_for_the_staff_do_not_exist_for_others() -> None:
    jobs.emit("test.told", {"n": 1}, tenant="a", audience="staff")
    [(number,)] = factories.sql("SELECT id FROM jobs_outbox WHERE topic = 'test.told'")

    for verb in (outbox.park, outbox.publish, outbox.discard):
        with pytest.raises(UnknownTarget):
            verb(number, by=of_tenant("a", is_staff=False), reason="a test")

    outbox.discard(number, by=of_tenant("a"), reason="a test")


def test_bulk_operations_in_sight_are_found_behind_many_that_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = bulk.start("cancel", ids=[jobs.enqueue(Noop(), queue="q").id], by=OF_Q, reason="a test")
    other = jobs.enqueue(Noop(), queue="other").id
    for _ in range(3):
        bulk.start("cancel", ids=[other], by="tests", reason="a test")
    monkeypatch.setattr(bulkseen, "IDS_LIMIT", 2)

    assert [one.id for one in bulk.every(by=OF_Q, limit=1)] == [mine.id]
    of_both = Principal("bo", "api", scope=Scope(frozenset({"a"}), frozenset({"q"})))
    assert bulk.every(by=of_both, limit=1) == []
    assert len(bulk.every(by="tests", limit=2)) == 2


def test_queues_are_suggested_only_to_whoever_may_see_them() -> None:
    factories.sql("INSERT INTO jobs_queue (name) VALUES ('q'), ('q-of-b') ON CONFLICT DO NOTHING")

    assert search.suggestions("queue", "q", by=of_tenant("a")) == []
    assert search.suggestions("queue", "q", by=OF_Q) == ["q"]
    assert set(search.suggestions("queue", "q", by="tests")) >= {"q", "q-of-b"}


def a_key(**options: Any) -> Principal:
    """Whoever shows a new key that may make others."""
    made = apikeys.create("root", sorted(ALL), by="tests", reason="a test", **options)
    found = apikeys.principal(made.text, address="10.0.0.1")
    assert found is not None
    return found


def test_a_key_makes_none_that_is_good_for_longer() -> None:
    soon, later = (datetime.now(UTC) + timedelta(days=days) for days in (1, 2))
    who = a_key(expires_at=soon)
    make = partial(apikeys.create, "other", ["view_job"], by=who, reason="a test")
    eternal = apikeys.create("eternal", ["view_job"], by="tests", reason="a test").key.pk

    for moment in (None, later):
        with pytest.raises(InvalidOption, match="no later than that of your own key"):
            make(expires_at=moment)
    with pytest.raises(InvalidOption, match="no later than that of your own key"):
        apikeys.rotate(eternal, by=who, reason="a test")

    assert make(expires_at=soon).key.expires_at == soon


def test_a_key_makes_none_that_is_good_from_elsewhere() -> None:
    who = a_key(addresses=["10.0.0.0/16", "fd00::/8"])
    make = partial(apikeys.create, "other", ["view_job"], by=who, reason="a test")

    for addresses in ([], ["10.0.0.0/8"], ["10.0.0.1", "192.0.2.1"], ["::/0"]):
        with pytest.raises(InvalidOption, match="within those of your own key"):
            make(addresses=addresses)

    assert make(addresses=["10.0.7.0/24", "fd00::1"]).key.addresses == [
        "10.0.7.0/24",
        "fd00::1/128",
    ]


def words_of(job_id: UUID, scope: Scope) -> str:
    return explain(job_id, scope).words


def test_an_explanation_counts_nobody_elses_jobs() -> None:
    mine = Scope(tenants=frozenset({"a"}))
    ids = [jobs.enqueue(Noop(), queue="q", tenant=name, exclusive="k").id for name in ("b", "a")]
    factories.sql("UPDATE jobs_job SET wait = 2")

    assert "and 1 waits for it" in words_of(ids[1], Scope())
    assert "and others wait for it" in words_of(ids[1], mine)

    ids = [jobs.enqueue(Noop(), queue="q", tenant=name).id for name in ("b", "a")]
    for job_id in ids:
        factories.sql(
            "UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock(), moved_by = 'test' "
            "WHERE id = %s",
            [job_id],
        )

    assert "1 is before it" in words_of(ids[1], Scope())
    assert "1 is before it" in words_of(ids[1], OF_Q.scope)
    assert "queued, and" in words_of(ids[1], mine) and "before it" not in words_of(ids[1], mine)


def test_an_explanation_tells_no_words_of_others_pauses() -> None:
    job_id = jobs.enqueue(Noop(), queue="q", tenant="a").id
    for scope in ("queue:q", "tenant:a", "kind:test.noop"):
        pauses.pause(scope, by="tests", reason=f"words for {scope}")

    def told(scope: Scope) -> set[str]:
        found = explain(job_id, scope)
        assert found.codes.count("paused") == 3
        return {name for name in ("queue:q", "tenant:a", "kind:test.noop")
                if f"words for {name}" in found.words}  # fmt: skip

    assert told(Scope()) == {"queue:q", "tenant:a", "kind:test.noop"}
    assert told(OF_Q.scope) == {"queue:q"}
    assert told(Scope(tenants=frozenset({"a"}))) == {"tenant:a"}
