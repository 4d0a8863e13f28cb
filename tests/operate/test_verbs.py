"""Every verb of people: its permission, its scope, its reason, and its one row of the audit."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

import jobs
import jobs.operate
from jobs.engine import admission, intake, outbox, roll
from jobs.engine import webhooks as telling
from jobs.errors import Denied, InvalidOption, JobsError, UnknownTarget
from jobs.models import Audit
from jobs.operate import blackouts, bulk, causes, queues, schedules, verbs, views, webhooks
from jobs.operate.batches import batch
from jobs.operate.pauses import pause
from jobs.operate.verbs import Verb
from jobs.principals import ALL, EVERYTHING, Principal, Scope
from jobs.testing import freeze_clock
from tests.jobs.factories import a_claim, a_job, ended, move, settle, sql
from tests.privacy import vault
from tests.specimens.handlers import Noop

WHO: dict[str, Any] = {"by": "ada", "reason": "to begin with"}
NOON = datetime(2040, 1, 2, 12, tzinfo=UTC)
ELSEWHERE = Scope(tenants=frozenset({"other"}))

Call = tuple[tuple[Any, ...], dict[str, Any]]


def failed() -> Any:
    claim = a_claim(Noop(), tenant="acme")
    settle(ended(claim, "unrecoverable"))
    return claim.id


def letter() -> int:
    failed()
    return int(sql("SELECT id FROM jobs_deadletter")[0][0])


def a_batch() -> Any:
    made = batch("b", tenant="acme")
    made.add(Noop())
    failing = made.add(Noop()).id
    made.seal()
    for state in ("queued", "running", "failed"):
        move(failing, state)
    sql("UPDATE jobs_batch SET failed = 1 WHERE id = %s", [made.id])
    return made.id


def an_effect() -> int:
    sql(
        "INSERT INTO jobs_effect (job_id, key, state, token, attempt) "
        "VALUES (%s, 'send', 'in_doubt', gen_random_uuid(), 1)",
        [failed()],
    )
    return int(sql("SELECT id FROM jobs_effect")[0][0])


def an_event(state: str = "pending") -> int:
    jobs.emit("order.paid", {}, tenant="acme")
    number = int(sql("SELECT max(id) FROM jobs_outbox")[0][0])
    if state != "pending":
        sql("UPDATE jobs_outbox SET state = %s WHERE id = %s", [state, number])
    return number


def a_schedule(is_paused: bool = False) -> str:
    schedules.create("tidy", Noop(), cron="0 * * * *", tenant="acme", **WHO)
    if is_paused:
        schedules.pause("tidy", **WHO)
    return "tidy"


def a_breaker() -> str:
    sql("INSERT INTO jobs_breaker (name, state, failures) VALUES ('mail', 'closed', 2)")
    return "mail"


def a_meter() -> str:
    jobs.meter("broker", "5/m").close(3600)
    return "broker"


def a_worker() -> str:
    roll.announce("w1", 1, ["default"], 4)
    return "w1"


def a_window() -> int:
    return blackouts.create("tenant:acme", time(1), time(2), **WHO).pk


def closed() -> str:
    admission.close([admission.Closing("queue:default", "default", None, None, 600)])
    return "queue:default"


def limited(**how: Any) -> str:
    queues.set_limit("queue:default", at_once=3, **WHO)
    if how:
        queues.set_limit("queue:default", at_once=1, **how, **WHO)
    return "queue:default"


def paused() -> str:
    pause("queue:default", **WHO)
    return "queue:default"


def a_cause(*, is_ignored: bool = False) -> str:
    failed()
    fingerprint = str(sql("SELECT fingerprint FROM jobs_deadletter")[0][0])
    if is_ignored:
        causes.ignore(fingerprint, **WHO)
    return fingerprint


def an_operation(*, is_left: bool = False) -> Any:
    """A bulk operation on what the tenant has; its job may be gone."""
    who = Principal("ada", "api", ALL, Scope(tenants=frozenset({"acme"})))
    made = bulk.start("retry", ids=[failed()], by=who, reason="to begin with").id
    if is_left:
        jobs.cancel(jobs.Job.objects.get(kind="jobs.bulk").id, **WHO)
    return made


def a_webhook(is_paused: bool = False) -> Any:
    made = webhooks.create("https://a.example.com/", tenant="acme", **WHO).id
    if is_paused:
        webhooks.pause(made, **WHO)
    return made


def a_delivery() -> Any:
    a_webhook()
    jobs.emit("order.paid", {}, tenant="acme")
    outbox.relay_once()
    sql("UPDATE jobs_webhookdelivery SET state = 'failed', closed_at = jobs_clock()")
    return sql("SELECT id FROM jobs_webhookdelivery")[0][0]


@pytest.fixture(autouse=True)
def _webhooks(settings: Any) -> Iterator[None]:
    settings.JOBS = {**settings.JOBS, **vault.KEYS, "WEBHOOKS": True}
    telling.register()
    yield
    telling.unregister()


def a_view() -> int:
    return int(views.save("mine", "kind:test.*", shared=True, tenant="acme", **WHO).pk)


LATER = datetime(2040, 1, 3, tzinfo=UTC)
MAKERS: dict[str, Callable[[], Call]] = {
    "job.retry": lambda: ((failed(),), {}),
    "job.run_now": lambda: ((a_job(tenant="acme", delay=600),), {}),
    "job.replay": lambda: ((failed(),), {}),
    "job.cancel": lambda: ((a_job(tenant="acme"),), {}),
    "job.edit": lambda: ((a_job(tenant="acme"),), {"priority": 7}),
    "job.reveal_payload": lambda: ((a_job(tenant="acme"),), {}),
    "batch.cancel_rest": lambda: ((a_batch(),), {}),
    "batch.retry_failed": lambda: ((a_batch(),), {}),
    "batch.note": lambda: ((a_batch(), "call them"), {}),
    "deadletter.retry": lambda: ((letter(),), {}),
    "deadletter.replay": lambda: ((letter(),), {}),
    "deadletter.discard": lambda: ((letter(),), {}),
    "effect.resolve": lambda: ((an_effect(), "resend"), {}),
    "event.park": lambda: ((an_event(),), {}),
    "event.publish": lambda: ((an_event("parked"),), {}),
    "event.discard": lambda: ((an_event(),), {}),
    "scope.pause": lambda: (("tenant:acme",), {}),
    "scope.resume": lambda: ((paused(),), {}),
    "limit.set": lambda: (("queue:default",), {"at_once": 2}),
    "limit.end_override": lambda: ((limited(until=LATER),), {}),
    "limit.reopen": lambda: ((closed(),), {}),
    "limit.remove": lambda: ((limited(),), {}),
    "breaker.open": lambda: ((a_breaker(),), {}),
    "breaker.close": lambda: ((a_breaker(),), {}),
    "meter.reopen": lambda: ((a_meter(),), {}),
    "worker.drain": lambda: ((a_worker(),), {}),
    "worker.stop": lambda: ((a_worker(),), {}),
    "schedule.create": lambda: (("new", Noop()), {"cron": "0 * * * *", "tenant": "acme"}),
    "schedule.edit": lambda: ((a_schedule(),), {"cron": "5 * * * *"}),
    "schedule.remove": lambda: ((a_schedule(),), {}),
    "schedule.pause": lambda: ((a_schedule(),), {}),
    "schedule.resume": lambda: ((a_schedule(is_paused=True),), {}),
    "schedule.run_now": lambda: ((a_schedule(),), {}),
    "schedule.backfill": lambda: (
        (a_schedule(), datetime(2040, 1, 2, 9, tzinfo=UTC), NOON),
        {},
    ),
    "blackout.create": lambda: (("tenant:acme", time(1), time(2)), {}),
    "blackout.update": lambda: ((a_window(),), {"end": time(3)}),
    "blackout.delete": lambda: ((a_window(),), {}),
    "bulk.start": lambda: (("retry",), {"ids": [failed()]}),
    "bulk.abort": lambda: ((an_operation(),), {}),
    "bulk.proceed": lambda: ((an_operation(is_left=True),), {}),
    "cause.ignore": lambda: ((a_cause(),), {}),
    "cause.resolve": lambda: ((a_cause(),), {}),
    "cause.reopen": lambda: ((a_cause(is_ignored=True),), {}),
    "cause.note": lambda: ((a_cause(), "known"), {}),
    "cause.retry_all": lambda: ((a_cause(),), {}),
    "cause.replay_all": lambda: ((a_cause(),), {}),
    "cause.discard_all": lambda: ((a_cause(),), {}),
    "deploy.mark": lambda: (("v7",), {}),
    "view.save": lambda: (("new", "kind:test.*"), {"shared": True, "tenant": "acme"}),
    "view.edit": lambda: ((a_view(),), {"query": "kind:other.*"}),
    "view.remove": lambda: ((a_view(),), {}),
    "webhook.create": lambda: (("https://a.example.com/",), {"tenant": "acme"}),
    "webhook.edit": lambda: ((a_webhook(),), {"topics": ["order.*"]}),
    "webhook.pause": lambda: ((a_webhook(),), {}),
    "webhook.resume": lambda: ((a_webhook(is_paused=True),), {}),
    "webhook.rotate_secret": lambda: ((a_webhook(),), {}),
    "webhook.delete": lambda: ((a_webhook(),), {}),
    "webhook.ping": lambda: ((a_webhook(),), {}),
    "webhook.redeliver": lambda: ((a_delivery(),), {}),
}
VERBS = [verb for verb in verbs.of_app("jobs") if verb.noun != "apikey"]
"""Those of API keys have tests of their own: what they give away depends on who gives it."""
BY_NAME = {verb.name: verb for verb in VERBS}
BEFORE_THE_FACT = {
    "schedule.create", "blackout.create", "deploy.mark", "bulk.start", "webhook.create",
    "view.save",
}  # fmt: skip
"""They have no target yet; out of scope they are unknown all the same."""
ALSO = {"bulk.start": {"retry_job"}, "bulk.proceed": {"retry_job"}}
"""Permissions of what the bulk operations of these tests do."""
OF_ALL = {"cause.ignore", "cause.resolve", "cause.reopen", "cause.note"}
"""What is decided for every tenant at once."""


@dataclass
class Desk:
    """A verb with something to do, and what the tables say."""

    verb: Verb
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def do(self, by: Any, reason: Any = "because") -> Any:
        given = {} if self.verb.name in ("batch.note", "cause.note") else {"reason": reason}
        return self.verb.function(*self.arguments, by=by, **given, **self.options)

    def rows(self) -> list[str]:
        return list(
            Audit.objects.filter(action=self.verb.name, reason__in=["because", ""])
            .exclude(actor="ada")
            .values_list("outcome", flat=True)
        )


def world() -> dict[str, Any]:
    """Everything that is stored, beside the audit."""
    tables = [
        name
        for name in connection.introspection.table_names()
        if name.startswith("jobs_") and not name.startswith(("jobs_audit", "jobs_feed_2"))
    ]
    return {
        name: sql(f"SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {name} t")  # noqa: S608
        for name in sorted(tables)
    }


@pytest.fixture(params=VERBS, ids=lambda verb: verb.name)
def desk(request: pytest.FixtureRequest, db: None) -> Any:
    verb: Verb = request.param
    with freeze_clock(NOON):
        arguments, options = MAKERS[verb.name]()
        yield Desk(verb, arguments, options)


def ana(permissions: frozenset[str] = ALL, scope: Scope = EVERYTHING) -> Principal:
    return Principal("ana", "api", permissions, scope)


def test_a_verb_is_done_and_written_once(desk: Desk) -> None:
    before = world()
    held = {desk.verb.permission, *desk.verb.also} | ALSO.get(desk.verb.name, set())
    desk.do(ana(frozenset(held)))
    assert desk.rows() == ["done"]
    assert desk.verb.name == "job.reveal_payload" or world() != before


def test_without_its_permission_nothing_happens(desk: Desk) -> None:
    before = world()
    with pytest.raises(Denied) as caught:
        desk.do(ana(ALL - {desk.verb.permission}))
    assert caught.value.permission == desk.verb.permission
    assert (world(), desk.rows()) == (before, ["denied"])


def test_out_of_scope_it_is_unknown_and_nothing_happens(desk: Desk) -> None:
    before = world()
    with pytest.raises(UnknownTarget):
        desk.do(ana(scope=ELSEWHERE))
    assert (world(), desk.rows()) == (before, ["denied"])


def test_within_its_tenant_it_is_done(desk: Desk) -> None:
    everybodys = ("scope", "breaker", "meter", "worker", "deploy")
    is_of_all = desk.verb.target.kind in everybodys or desk.verb.name in OF_ALL
    if is_of_all and desk.arguments[0] != "tenant:acme":
        with pytest.raises(UnknownTarget):
            desk.do(ana(scope=Scope(tenants=frozenset({"acme"}))))
        assert desk.rows() == ["denied"]
    else:
        desk.do(ana(scope=Scope(tenants=frozenset({"acme"}))))
        assert desk.rows() == ["done"]


def test_what_is_rolled_back_leaves_no_row(desk: Desk) -> None:
    before = world()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        desk.do(ana())
        raise ZeroDivisionError
    assert (world(), desk.rows()) == (before, [])


def test_a_reason_is_asked_for_where_it_is_needed(desk: Desk) -> None:
    if not desk.verb.needs_reason:
        desk.do(ana(), reason=desk.verb.reason.default if desk.verb.reason else "")
        return
    before = world()
    with pytest.raises(InvalidOption) as caught:
        desk.do(ana(), reason=" ")
    assert caught.value.option == "reason" and world() == before


def test_code_may_do_it(desk: Desk) -> None:
    desk.do("nightly")
    assert Audit.objects.get(action=desk.verb.name, actor="nightly").via == "code"


@pytest.mark.parametrize(
    "name",
    [v.name for v in VERBS if v.target.kind != "scope" and v.name not in BEFORE_THE_FACT],
)
@pytest.mark.django_db
def test_nobody_s_target_is_unknown_and_refused(name: str) -> None:
    verb = BY_NAME[name]
    with freeze_clock(NOON):
        (_, *arguments), options = MAKERS[name]()
        nobody: object = "nobody"
        if verb.target.kind in ("job", "batch", "webhook", "delivery"):
            nobody = jobs.ids.uuid7()
        elif verb.target.kind in ("deadletter", "effect", "event", "blackout", "view"):
            nobody = 2**40
        with pytest.raises(UnknownTarget):
            Desk(verb, (nobody, *arguments), options).do("ben")
        assert Audit.objects.get(actor="ben").outcome == "refused"


def test_every_verb_is_tried_here() -> None:
    assert set(MAKERS) == set(BY_NAME)


def test_whatever_acts_is_a_verb() -> None:
    """Nothing of ``operate`` opens an act of its own, but for what is no act of people."""
    folder = Path(inspect.getfile(jobs.operate)).parent
    allowed = {"acts", "verbs", "bulkrun", "exports"}
    for path in sorted(folder.rglob("*.py")):
        if path.stem not in allowed:
            assert "acts.on(" not in path.read_text(), path


# ---- what is particular


@pytest.mark.django_db
def test_a_refusal_says_what_is_allowed() -> None:
    job = a_job()
    with pytest.raises(JobsError, match="it must be"):
        jobs.retry(job, by=ana())
    row = Audit.objects.get()
    assert row.outcome == "refused" and row.detail["allowed"] == ["cancelled", "expired", "failed"]


@pytest.mark.django_db
def test_several_jobs_of_intake_are_no_act() -> None:
    intake.enqueue(Noop())
    assert not Audit.objects.exists()
