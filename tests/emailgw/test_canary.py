"""Birds in every field: none of them is heard anywhere but in the mail itself."""

from __future__ import annotations

import json
import logging
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

import jobs
from emailgw import services
from emailgw.models import Company, OutboxEmail
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.emailgw.sink import Sink
from tests.privacy.test_canary import redis, tables

pytestmark = pytest.mark.django_db
BIRDS = [
    "zeisig.fink@singvogel.test", "amsel.drossel@singvogel.test", "star.meise@singvogel.test",
    "antwort@acme.test", "Wiedehopf Betreff", "Kernbeisser-Wert", "Rotkehlchen Inhalt",
    "529.982.247-25", "52998224725", "Zaunkoenig GmbH", "Nachtigall Souza",
]  # fmt: skip


def asked() -> dict[str, Any]:
    to, cc, bcc, reply, subject, header, html, cpf, _, company, name = BIRDS
    return {
        "to": to, "cc": [cc], "bcc": [bcc], "replyTo": reply, "subject": subject,
        "headers": {"X-Custom-A": header}, "html": f"<p>{html}</p>",
        "recipient": {"externalId": "E1", "cpfCnpj": cpf, "razaoSocial": company, "nome": name},
    }  # fmt: skip


def heard(text: str, where: str) -> None:
    flat = text.lower()
    for bird in BIRDS:
        for spelling in (bird, json.dumps(bird)[1:-1], re.sub(r"\W", "", bird)):
            assert spelling.lower() not in flat, f"{where}: {spelling}"


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        ("", ""),
        ("RCPT", "550 5.1.1 <{}> is unknown here"),
        ("END", "451 later, {}"),
        ("END", "take and hang up"),
        ("MAIL", "hang up"),
    ],
)
def test_no_bird_gets_out(
    company: Company, sink: Sink, admin_client: Client, step: str, answer: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    loggers = [logging.getLogger(name) for name in ("", "jobs")]
    for logger in loggers:
        logger.addHandler(handler)
    level, loggers[0].level = loggers[0].level, logging.DEBUG
    logging.getLogger("mail.log").setLevel(logging.WARNING)  # the server's own, of this process
    try:
        sink.script = lambda at, address, times: answer.format(address) if at == step else None
        with freeze_clock() as clock:
            made = services.accept(company, asked(), by="test", idempotency_key="k")
            for _ in range(6):
                run_jobs()
                clock.tick(150)
        row = OutboxEmail.objects.get(pk=made.outbox_id)
        if not step:
            [taken] = sink.taken
            assert BIRDS[4] in str(taken.message["Subject"])
            assert set(taken.envelope) == set(BIRDS[:3])
        heard(tables(), "the tables")
        heard(redis(), "Redis")
        heard(stream.getvalue(), "the logs")
        heard(repr(emitted()), "the events")
        heard(repr(row) + repr(row.recipient) + repr(made) + repr(jobs.explain(row.pk)), "objects")
        call_command("jobs", "explain", str(row.pk))
        heard("".join(capsys.readouterr()), "the command")
        page = admin_client.get(f"/admin/jobs/job/{row.pk}/change/")
        assert page.status_code == 200
        heard(page.content.decode(), "the page")
        metrics = admin_client.get("/metrics")
        assert metrics.status_code == 200
        heard(metrics.content.decode(), "the metrics")
    finally:
        loggers[0].setLevel(level)
        for logger in loggers:
            logger.removeHandler(handler)


def test_the_bird_would_be_heard(company: Company) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE emailgw_company SET name = %s", [BIRDS[0]])
    with pytest.raises(AssertionError, match="zeisig"):
        heard(tables(), "the tables")
