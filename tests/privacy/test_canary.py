"""Canaries: values that are given as sensitive, and then looked for wherever anything is kept."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

import jobs
from jobs import registry, testing
from jobs.engine import rq
from tests.privacy.vault import Register, raw

CANARY = "Kanarienvogel-7f3a91"
INNER = "Zeisig-Gräf-55"
CANARIES = [CANARY, INNER]


@pytest.fixture
def sinks(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """Everything that was logged, by anybody, as a handler at the root formats it."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    names = ["", "jobs"]
    for name in names:
        logging.getLogger(name).addHandler(handler)
    caplog.set_level(logging.DEBUG, logger="jobs")
    yield stream
    for name in names:
        logging.getLogger(name).removeHandler(handler)


def tables() -> str:
    """Every row of every table of the project, as text."""
    names = [name for (name,) in raw("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    rows = [raw(f'SELECT t::text FROM "{name}" t') for name in names]  # noqa: S608
    return "\n".join(text for found in rows for (text,) in found)


def redis() -> str:
    """Everything that Redis holds."""
    client = rq.client()
    return repr([(key, client.dump(key)) for key in client.scan_iter()])


def look(text: str, where: str) -> None:
    """No canary sits in the text, in any of its usual disguises."""
    flat = text.lower()
    for canary in CANARIES:
        for spelling in (canary, json.dumps(canary)[1:-1], ascii(canary)[1:-1],
                         re.sub(r"\W", "", canary)):  # fmt: skip
            assert spelling.lower() not in flat, f"{where}: {spelling}"


def payload(how: str) -> Register:
    return Register(number=1, how=how, cpf=CANARY, contact={"name": [INNER], INNER: 1})


@pytest.mark.parametrize("how", ["succeed", "raise", "log", "snooze", "unrecoverable"])
def test_no_canary_gets_out(
    register: Any, sinks: StringIO, capsys: pytest.CaptureFixture[str], how: str,
    admin_client: Client,
) -> None:  # fmt: skip
    unique = jobs.Unique("one", for_="ever")
    with CaptureQueriesContext(connection) as queries, testing.freeze_clock() as clock:
        made = jobs.enqueue(payload(how), tenant="acme", unique=unique)
        summary = testing.run_jobs()
        clock.tick(60)
        testing.run_jobs()
        state = jobs.Job.objects.get(pk=made.id).state
        if state == "failed":
            jobs.retry(made.id, by="ana", reason="once more")
            testing.run_jobs()
        replayed = jobs.replay(made.id, by="ana", reason="again")
        testing.run_jobs()
        testing.run_jobs()
        jobs.enqueue_many([payload(how), payload(how)])
    statements = [query["sql"] for query in queries]
    look("\n".join(statements), "the statements")
    look(tables(), "the tables")
    look(redis(), "Redis")
    look(sinks.getvalue(), "the logs")
    look(repr(summary) + repr(jobs.explain(made.id)), "the answers")
    for job in jobs.Job.objects.all():
        look(repr(vars(job)), "the model")
    call_command("jobs", "explain", str(made.id))
    look("".join(capsys.readouterr()), "the command")
    for job_id in (made.id, replayed):
        page = admin_client.get(f"/admin/jobs/job/{job_id}/change/")
        assert page.status_code == 200
        look(page.content.decode(), "the page of the job")
    for letter in jobs.types.DeadLetter.objects.all():
        look(repr(vars(letter)), "the dead letter")
        page = admin_client.get(f"/admin/jobs/deadletter/{letter.pk}/change/")
        look(page.content.decode(), "the page of the dead letter")
    assert "working for ***" in sinks.getvalue()
    if how in ("raise", "unrecoverable"):
        [first, *_] = jobs.types.Attempt.objects.filter(job_id=made.id)
        assert "***" in first.message
        assert "Traceback" in first.traceback
        assert jobs.types.DeadLetter.objects.count() == 3


def test_the_bird_would_be_found(register: Any, sinks: StringIO) -> None:
    """The same search finds what is given in clear."""

    class Plain(jobs.Payload, kind="privacy.plain"):
        cpf: str

    @jobs.handler(Plain)
    def handle(ctx: jobs.Context, payload: Plain) -> str:
        ctx.log.info("working for %s", payload.cpf)
        return payload.cpf

    try:
        jobs.enqueue(Plain(cpf=CANARY))
        testing.run_jobs()
        for text in (tables(), sinks.getvalue()):
            with pytest.raises(AssertionError, match="Kanarienvogel"):
                look(text, "here")
    finally:
        registry.unregister(Plain.kind)


def test_replays_keep_the_value_for_the_handler(register: Any) -> None:
    seen: list[str] = []
    original = registry.get(Register.kind).function

    def spy(ctx: jobs.Context, given: Register) -> Any:
        seen.append(given.cpf)
        return original(ctx, given)

    registry.unregister(Register.kind)
    jobs.handler(Register, max_attempts=2, backoff=jobs.backoff.Immediate())(spy)
    made = jobs.enqueue(payload("raise"), tenant="acme")
    testing.run_jobs()
    jobs.replay(made.id, by="ana", reason="again")
    testing.run_jobs()
    assert seen == [CANARY] * 4


async def _async_handler(ctx: jobs.Context, given: Any) -> str:
    ctx.log.info("async %s", given.cpf)
    raise ValueError(given.cpf)


def test_async_handlers_are_covered(register: Any, sinks: StringIO) -> None:
    registry.unregister(Register.kind)
    jobs.handler(Register, max_attempts=1)(_async_handler)
    jobs.enqueue(payload("x"))
    assert testing.run_jobs().failed == 1
    look(sinks.getvalue(), "the logs")
    look(tables(), "the tables")
    assert "async ***" in sinks.getvalue()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["succeed", "raise", "doubt"])
def test_effects_are_covered(keys: Any, sinks: StringIO, how: str) -> None:
    @jobs.handler(Register, max_attempts=1)
    def handle(ctx: jobs.Context, given: Register) -> Any:
        def call() -> Any:
            if given.how == "raise":
                raise jobs.effects.NotHappened(f"refused {given.cpf}")
            if given.how == "doubt":
                raise TimeoutError(f"no answer for {given.cpf}")
            return {"to": given.cpf, INNER: [f"id of {INNER}"]}

        return ctx.effect("send", call, request={"to": given.cpf})

    try:
        jobs.enqueue(payload(how))
        assert len(testing.run_jobs()) == 1
        assert len(raw("SELECT 1 FROM jobs_effect")) == 1
        look(tables(), "the tables")
        look(sinks.getvalue(), "the logs")
    finally:
        registry.unregister(Register.kind)
