"""Birds in credentials, personal fields and the ERP's words: nobody else hears them."""

from __future__ import annotations

import json
import logging
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

import jobs
from config.standins.erp.server import Erp
from jobs.testing import emitted, freeze_clock, run_jobs
from operations import verbs
from operations.models import Agent, Customer, Login, Operation, Phase
from tests.operations import factories
from tests.operations.factories import ask, fetch, order
from tests.privacy.test_canary import redis, tables

pytestmark = pytest.mark.django_db
PASSWORD, NAME, STREET, PHONE, EMAIL, VAT, WORDS = BIRDS = [
    "Zaunkoenig-Kennwort", "Amsel Drossel Srl", "Via dei Fringuelli 12", "+39 045 998877",
    "star.meise@singvogel.test", "IT09988776655", "Via Segreta",
]  # fmt: skip
"""The last is what the stand-in says with every refusal."""


def heard(text: str, where: str) -> None:
    flat = text.lower()
    for bird in BIRDS:
        for spelling in (bird, json.dumps(bird)[1:-1], re.sub(r"\W", "", bird)):
            assert spelling.lower() not in flat, f"{where}: {spelling}"


def customer(**fields: Any) -> dict[str, Any]:
    return {
        "name": NAME, "vatNumber": VAT, "street": STREET, "phone": PHONE, "email": EMAIL, **fields
    }  # fmt: skip


def all_that_happens(erp: Erp) -> list[Operation]:
    """Operations that are done, refused, lost, doubtful, different, retried and cancelled."""
    items = [{"articleCode": "unknown", "quantity": 1, "price": 1}]
    asked = [
        ask("submit-order", order("P-1", customerName=NAME)),
        ask("submit-order", order("P-2", customerName=NAME, items=items)),
        ask("create-customer", customer()),
        ask("update-customer", customer(customerProfile="C-0001")),
        ask("update-customer", customer(customerProfile="C-none")),
        ask("download-invoice-pdf", {"orderId": "1", "invoiceNumber": "I-none"}),
        ask("sync-customers", {}),
        ask("submit-order", order("P-3", customerName=NAME)),
    ]
    erp.script("ada", "drop_after_save", "garbage_after_save", "500", "wrong_total")
    with freeze_clock() as clock:
        for _ in range(10):
            run_jobs(["erp-write", "erp-read", "erp-sync"])
            clock.tick(400)
        factories.agent("bea", password="nobody-accepts-it")
        erp.book.data["passwords"]["bea"] = "another"
        asked.append(ask("submit-order", order("P-4", customerName=NAME), "bea"))
        run_jobs(["erp-write"])
    verbs.cancel(asked[-1].pk, by="tests", reason="a test")
    return [fetch(row.pk) for row in asked]


def test_no_bird_gets_out(
    erp: Erp, tmp_path: Path, admin_client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    factories.agent("ada", password=PASSWORD)
    erp.book.data["passwords"]["ada"] = PASSWORD
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    loggers = [logging.getLogger(name) for name in ("", "jobs")]
    for logger in loggers:
        logger.addHandler(handler)
    level, loggers[0].level = loggers[0].level, logging.DEBUG
    try:
        rows = all_that_happens(erp)
        # All of it has been somewhere: in the ERP, in the mirror, and in columns of ours.
        assert {row.phase for row in rows} >= {Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED}
        assert any(WORDS in row.error_words for row in rows)
        assert Customer.objects.get(key="C-0001").values["name"] == NAME
        assert Agent.objects.get(pk="bea").login == Login.REFUSED
        heard(tables(), "the tables")
        heard(redis(), "Redis")
        heard(stream.getvalue(), "the logs")
        heard(repr(emitted()), "the events")
        heard(repr([*rows, *Agent.objects.all(), *Customer.objects.all()]), "objects")
        assert list((tmp_path / "exports").glob("*")) == []
        for row in rows:
            heard(repr(jobs.explain(row.pk)), "an explanation")
            call_command("jobs", "explain", str(row.pk))
            page = admin_client.get(f"/admin/jobs/job/{row.pk}/change/")
            assert page.status_code == 200
            heard(page.content.decode(), "the page of a job")
        heard("".join(capsys.readouterr()), "the command")
        for model in ("operation", "agent", "syncrun"):
            page = admin_client.get(f"/admin/operations/{model}/")
            assert page.status_code == 200
            heard(page.content.decode(), f"the list of {model}")
        for path in ("/api/v1/operations", "/api/v1/operations/dashboard", "/metrics"):
            answer = admin_client.get(path)
            assert answer.status_code == 200, path
            heard(answer.content.decode(), path)
    finally:
        loggers[0].setLevel(level)
        for logger in loggers:
            logger.removeHandler(handler)


def test_the_bird_would_be_heard(agent: Agent) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE operations_agent SET erp_login = %s", [EMAIL])
    with pytest.raises(AssertionError, match=r"star\.meise"):
        heard(tables(), "the tables")
