"""Operating the app: settings, checks, the audit, resuming, limits that others do not share."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import jobs
from config import environment
from config.standins.trading import Coinbase, Fault, new_account
from jobs import blobs
from jobs.models import Audit
from jobs.testing import freeze_clock, run_jobs
from tests.trading.factories import WEEK, linked, trade, user
from trading import checks, config, links, retention, services, verbs
from trading.ai import signatures
from trading.clock import now
from trading.models import AiSignature, BrokerConnection, Digest, ImportRun, Trade

NAMES = (
    "AI_BASE_URL", "AI_HMAC_KEY_ID", "AI_HMAC_SECRET", "AI_HMAC_SECRET_FILE", "AI_TIMEOUT_MS",
    "HEURISTICS_ONLY", "COINBASE_URL", "BROKER_RATE_LIMIT_SAFETY_MS", "WORKER_CONCURRENCY_IMPORT",
    "WORKER_CONCURRENCY_SCORE", "WORKER_CONCURRENCY_SIM", "WORKER_CONCURRENCY_DIGEST",
)  # fmt: skip


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment that sets nothing of the app."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


# ---- settings and checks


def test_the_defaults_are_those_of_the_specification(bare: pytest.MonkeyPatch) -> None:
    found = config.parse(environment.trading())
    assert (found.AI_TIMEOUT_MS, found.BROKER_RATE_LIMIT_SAFETY_MS) == (2000, 250)
    assert (
        found.WORKER_CONCURRENCY_IMPORT, found.WORKER_CONCURRENCY_SCORE,
        found.WORKER_CONCURRENCY_SIM, found.WORKER_CONCURRENCY_DIGEST,
    ) == (2, 2, 4, 1)  # fmt: skip


def test_a_secret_may_be_a_file(
    bare: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("hush\n")
    bare.setenv("AI_HMAC_KEY_ID", "desk")
    bare.setenv("AI_HMAC_SECRET_FILE", str(tmp_path / "secret"))
    found = config.parse(environment.trading())
    assert found.AI_HMAC_SECRET == "hush" and found.AI_KEYS == {"desk": "hush"}
    assert "hush" not in repr(found)
    bare.setenv("AI_HMAC_SECRET_FILE", str(tmp_path / "none"))
    with pytest.raises(SystemExit):
        environment.trading()
    assert "AI_HMAC_SECRET_FILE: cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value"),
    [("AI_TIMEOUT_MS", "2s"), ("WORKER_CONCURRENCY_SIM", "-1"), ("HEURISTICS_ONLY", "perhaps")],
)
def test_an_impossible_variable_is_named(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    bare.setenv(variable, value)
    with pytest.raises(SystemExit):
        environment.trading()
    assert f"{variable}: must be" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"AI_BASE": "x"}, "did you mean 'AI_BASE_URL'"), ({"AI_TIMEOUT_MS": "1"}, "whole number"),
        ({"WORKER_CONCURRENCY_SIM": 0}, "at least 1"), ([], "must be a dict"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_an_error_of_the_check(settings: Any, given: Any, words: str) -> None:
    settings.TRADING = given
    [found] = checks.check_settings()
    assert found.id == "trading.E001" and words in found.msg
    assert checks.check_ai() == []


def test_what_is_missing_or_may_not_be_called_is_named(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": []}
    settings.TRADING = {"COINBASE_URL": "http://127.0.0.1:9", "AI_HMAC_KEY_ID": "desk"}
    [found] = checks.check_settings()
    assert found.id == "trading.E002" and "COINBASE_URL" in found.msg
    [found] = checks.check_ai()
    assert found.id == "trading.W001" and "AI_BASE_URL, AI_HMAC_SECRET" in found.msg
    settings.TRADING = {"HEURISTICS_ONLY": True}
    assert checks.check_settings() == checks.check_ai() == []


# ---- the audit


@pytest.mark.django_db(transaction=True)
def test_the_audit_names_what_was_done_with_an_account(venue: Coinbase) -> None:
    account, owner = venue.add(new_account()), user("audited")
    checked = links.check_key("coinbase", account.name, account.secret, may_trade=False)
    link = links.store(owner.pk, checked, by="tests")
    services.start_import(link, by="tests")
    run_jobs()
    verbs.upsert_rule(owner.pk, "minHoldHours", by="tests")
    verbs.pause(link.pk, by="tests", reason="a holiday")
    verbs.revoke(link.pk, by="tests", reason="moved")
    verbs.erase(owner.pk, by="tests", reason="leaves")
    found = Audit.objects.filter(tenant=f"user:{owner.pk}").order_by("id")
    assert list(found.values_list("action", flat=True)) == [
        "broker_linked", "import_start", "import_done", "rule.upsert", "rule_upsert",
        "link.pause", "link.revoke", "trader.erase",
    ]  # fmt: skip
    assert account.secret not in str(list(found.values()))


# ---- limits and resuming


@pytest.mark.django_db(transaction=True)
def test_a_429_stops_nobody_else_and_its_end_is_logged(
    venue: Coinbase, link: BrokerConnection, caplog: pytest.LogCaptureFixture
) -> None:
    account = venue.add(new_account("organizations/o/apiKeys/other"))
    account.fills = venue.market.fills()
    other = linked(account, "other")
    venue.plan("fills", Fault(429, {"Retry-After": "3600"}))
    waiting = services.start_import(link, by="tests")
    run_jobs()
    done = services.start_import(other, by="tests")
    run_jobs()
    states = dict(ImportRun.objects.values_list("pk", "state"))
    assert states == {waiting: "RETRY", done: "DONE"}
    [told] = [record for record in caplog.records if "asks to wait" in record.getMessage()]
    assert told.levelno == logging.WARNING and told.reset_s == 3600  # type: ignore[attr-defined]


@pytest.mark.django_db(transaction=True)
def test_a_failed_import_that_is_retried_goes_on_at_its_cursor(
    venue: Coinbase, link: BrokerConnection
) -> None:
    venue.page = 5
    with freeze_clock() as clock:
        job = services.start_import(link, by="tests")
        real = venue._fills

        def second_page_is_broken(account: Any, query: dict[str, str]) -> Any:
            status, found = real(account, query)
            if query.get("cursor") and not mended:
                found = {"fills": [{}], "cursor": ""}
            return status, found

        mended: list[bool] = []
        venue._fills = second_page_is_broken  # type: ignore[method-assign]
        try:
            run_jobs()
            row = ImportRun.objects.get(pk=job)
            assert (row.state, row.error, row.stored) == ("FAILED", "BAD_ROW", 5)
            asked = venue.count("fills")
            mended.append(True)
            jobs.retry(job, by="tests")
            clock.tick(61)
            run_jobs()
        finally:
            venue._fills = real  # type: ignore[method-assign]
    row.refresh_from_db()
    assert (row.state, row.pages, row.stored, row.error) == ("DONE", 3, 12, "")
    assert venue.count("fills") == asked + 2, "the first page is not fetched again"
    assert Trade.objects.count() == 12


# ---- what goes by itself


@pytest.mark.django_db(transaction=True)
def test_old_rows_go_and_snapshots_stay() -> None:
    owner = user("old")
    trade(1, "BUY", "1", "100", 1, owner=owner)
    services.enqueue_digest(owner.pk, WEEK.date(), (WEEK + timedelta(days=7)).date())
    run_jobs()
    Digest.objects.update(period_end=(now() - timedelta(days=184)).date())
    link = linked(new_account(), "old")
    old = ImportRun.objects.create(id=jobs.Job.objects.get().pk, user=owner, connection=link,
                                   since=WEEK)  # fmt: skip
    stamp = now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    signatures.verify(
        {"k": "s"}, {"X-KeyId": "k", "X-Timestamp": stamp,
                     "X-Signature": signatures.sign("s", stamp, b"")}, b"",
    )  # fmt: skip
    AiSignature.objects.update(seen_at=now() - timedelta(seconds=601))
    ImportRun.objects.update(created_at=now() - timedelta(days=91))
    [counted] = retention.clear(dry_run=True, chunk=1)
    assert counted == {"AI signatures": 1, "imports": 0, "scorings": 0, "digests": 1}
    gone = list(retention.clear(dry_run=False, chunk=1))
    assert gone == [{"AI signatures": 1}, {"digests": 1}]
    assert ImportRun.objects.filter(pk=old.pk).exists(), "its job is still there"
    assert not Digest.objects.exists() and not AiSignature.objects.exists()
    assert list(blobs.store().list(f"digests/{owner.pk}/"))
