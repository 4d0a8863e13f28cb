"""Nobody sees or changes what is others', by any operation of any API of the project."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import time, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.utils import timezone

import jobs
from emailgw import services, suppressions
from emailgw.models import Suppression
from fileproc.models import Quota
from fileproc.services import announcing, batches
from jobs import blobs
from jobs.engine import outbox
from operations.clock import now
from operations.models import Document, SyncRun
from publisher import brand_verbs, plan_verbs, plans, template_verbs
from publisher import services as publications
from publisher.models import Asset, Consent, Slot
from tests.api import world
from tests.api.conftest import Caller, call
from tests.attack import requests
from tests.emailgw import factories as emails
from tests.jobs import factories
from tests.jobs.factories import sql
from tests.operations import factories as erp
from tests.publisher import factories as posts
from tests.specimens.handlers import Noop
from tests.trading import factories as trades
from tests.webhooks.conftest import on  # noqa: F401 - a fixture
from trading.models import BiasTag, BrokerConnection, Digest, ImportRun, ScoreRun, Simulation
from trading.models.tag import Label

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("on")]
OF_NO_QUEUE = {
    "batch_list",
    "batch_get",
    "outbox_list",
    "outbox_get",
    "event_list",
    "view_list",
    "view_get",
}
"""Shown to keys of any queue, see docs/operating.md: names of batches without their numbers, what
the project itself tells, and shared views."""
TOO_EARLY = {
    "bulk_start", "limit_end_override", "limit_remove", "limit_reopen", "outbox_publish",
    "queue_end_override", "schedule_resume", "publication_replay", "publication_settle",
    "publisher_job_replay", "publisher_dlq_retry", "plan_submit", "plan_schedule",
    "consent_connect",
    "brand_remove_member",
}  # fmt: skip
"""What can only be done after something else, and is refused for that alone."""
CALLING = {
    "asset_fetch", "trading_connect", "trading_connect_binance", "trading_link_set_symbols",
    "trading_link_symbols", "trading_link_test",
}  # fmt: skip
"""What calls another host before or after its transaction: tests/trading/test_others.py and
tests/publisher/test_assets.py walk these."""
OPERATIONS = sorted(
    (operation for operation in requests.every() if operation.id not in CALLING),
    key=lambda operation: operation.id,
)
Call = Callable[[str, str, Any], Any]
OWNERS = ("jobs_", "emailgw_", "fileproc_", "operations_", "publisher_", "trading_")
CANARY = "canary4711"
"""Stands in every text of others that no request of the walk contains."""
NOISE = {"jobs_audit", "jobs_apianswer", "django_session"}
"""Tables of what the attackers themselves did."""


def planted() -> dict[str, Any]:
    """One of everything, of tenant "other" and of a company, by the names of parameters."""
    made = world.made()
    company = emails.company(f"{CANARY} Ltd", default_from=f"{CANARY}@acme.test")
    sent = [
        services.accept(company, emails.request(to=f"{CANARY}{n}@customers.test"), by=CANARY)
        for n in range(2)
    ]
    factories.settle(factories.ended(factories.claim_again(sent[0].outbox_id), "unrecoverable"))
    root = Caller(name=f"{CANARY} root", is_staff=True)
    batch = root(
        "POST", "/email/batches", {"company": str(company.pk), "emails": [emails.request()]}
    )
    entry = suppressions.suppress(
        company.pk, f"{CANARY}@gone.test", Suppression.Reason.HARD_BOUNCE, by=CANARY
    )
    brand = publications.create_brand("other", f"{CANARY} brand")
    account = posts.accounts(brand, "https://graph.test")["meta_facebook"]
    post = posts.post("meta_facebook", f"{CANARY} post")
    published = publications.enqueue(account, post, run_at=timezone.now() + timedelta(hours=1))
    planner = User.objects.create_user("planner")
    consent = Consent.objects.create(
        brand=brand, tenant=brand.tenant, channel="x", user=planner, state=CANARY, session=CANARY,
        is_answered=True, secrets={"accounts": [{"id": "1", "name": CANARY, "token": CANARY}]},
    )  # fmt: skip
    plan_id = plan_verbs.create_with(
        "other", f"{CANARY} plan", {"caption": f"{CANARY} plan"},
        [plans.Place(one, "2034-01-01T10:00") for one in ("meta_facebook", "google_business")],
        by=CANARY,
    ).pk  # fmt: skip
    plan_verbs.submit(plan_id, by=CANARY)
    template = template_verbs.create_with(
        "other", f"{CANARY} template", {"caption": f"{CANARY} template"}, by=CANARY
    )
    window = brand_verbs.add_window(brand.pk, time(22), time(6), by=CANARY, reason=CANARY)
    asset = Asset.objects.create(
        brand=brand, tenant=brand.tenant, name=f"{CANARY}.png", size=4, kind="image",
        content_type="image/png", is_ready=True, created_by=CANARY,
    )  # fmt: skip
    sql("UPDATE jobs_job SET tags = tags || %s WHERE id = %s", [[CANARY], made["pending"]])
    jobs.emit(f"{CANARY}.told", {"text": CANARY}, tenant="other")
    outbox.relay_once(1)
    return {
        **made,
        "company": str(company.pk),
        "company_id": company.pk,
        "email_id": sent[0].outbox_id,
        "email.batch_id": batch.data["batchId"],
        "entry_id": entry.pk,
        "brand_id": brand.pk,
        "account_id": account.pk,
        "publication_id": published.row.pk,
        "asset_id": asset.pk,
        "consent_id": consent.pk,
        "plan_id": plan_id,
        "template_id": template.pk,
        "window": window,
        "slot_id": Slot.objects.filter(plan=plan_id).values_list("pk", flat=True)[0],
        "publisher.job_id": published.row.pk,
        **of_erp(),
        **of_documents(),
        **of_trades(),
        "jobs.number": 1,
        "queue": "default",
        "kind": "test.noop",
    }


def of_erp() -> dict[str, Any]:
    """An agent with an operation, a document and a sync run whose deletions are held."""
    agent = erp.agent("ada", erp_login=CANARY)
    row = erp.ask("submit-order", erp.order(customerName=CANARY))
    blobs.store().write("operations/planted.pdf", b"%PDF-1.4")
    Document.objects.create(
        operation=row, agent=agent, tenant=agent.tenant, number=CANARY, size=8, sha256="0" * 64,
        blob="operations/planted.pdf",
    )  # fmt: skip
    run = SyncRun.objects.create(
        operation=row, agent=agent, tenant=agent.tenant, type="sync-orders", outcome="held",
        held=[CANARY], ended_at=now(),
    )  # fmt: skip
    return {
        "operation_id": row.pk, "syncrun_id": run.pk, "agent_id": agent.pk, "agent_key": agent.pk,
        "operations.type": "sync-orders",
    }  # fmt: skip


def of_documents() -> dict[str, Any]:
    """An upload with a document, and a quota."""
    batch = batches.create("other", 2)
    announced = announcing.Announced(f"{CANARY}.txt", 4)
    file = batches.register("other", batch.pk, announced).file
    assert file is not None
    Quota.objects.update_or_create(owner="other", defaults={"bytes_limit": 4711})
    return {"document_id": file.pk, "upload_id": batch.pk, "quota_id": "other"}


def of_trades() -> dict[str, Any]:
    """A trader with one row of each model."""
    user, number = trades.user(CANARY), uuid4()
    link = BrokerConnection.objects.create(user=user, broker="coinbase", key_name=CANARY)
    ImportRun.objects.create(id=number, user=user, connection=link, since=trades.WEEK, mark=CANARY)
    ScoreRun.objects.create(id=number, user=user, since=trades.WEEK, error=CANARY)
    trade = trades.trade(1, "BUY", "1", "100", owner=user)
    BiasTag.objects.create(
        user=user, trade=trade, label=Label.FOMO, confidence=1, source="heuristics",
        insight=CANARY, rules_version="1",
    )  # fmt: skip
    Simulation.objects.create(user=user, trade=trade, horizon_days=7, source=CANARY)
    Digest.objects.create(
        user=user, period_start=trades.WEEK.date(), period_end=trades.WEEK.date(),
        payload={"note": CANARY}, sha256="0" * 64, storage_key=CANARY,
    )  # fmt: skip
    return {
        "trader": f"user:{user.pk}", "link_id": link.pk, "trade_id": trade.pk, "days": 7,
        "trading.job_id": number,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def an_erp(settings: Any, tmp_path: Path, on: Any) -> None:  # noqa: F811
    """Nobody calls it here."""
    settings.JOBS = {**settings.JOBS, "BLOBS": {"STORE": "local", "ROOT": str(tmp_path)}}
    settings.OPERATIONS = {"ERP_URL": "https://erp.example.com"}


def rows() -> dict[tuple[str, str], str]:
    """Everything in the database, by table and key."""
    tables = [
        name
        for (name,) in sql(
            "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p') AND NOT "
            "c.relispartition AND c.relnamespace = 'public'::regnamespace AND EXISTS (SELECT 1 "
            "FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) ORDER BY 1"
        )
        if name.startswith(OWNERS) and name not in NOISE
    ]
    found: dict[tuple[str, str], str] = {}
    for table in tables:
        for number, (text,) in enumerate(sql(f'SELECT t::text FROM "{table}" t ORDER BY 1')):  # noqa: S608
            found[table, text] = text if number < 10_000 else ""
    return found


def walk(ask: Call, theirs: dict[str, Any], shown: Collection[str] = ()) -> list[str]:
    """What the operations told of others, but for those ``shown``, or did to them."""
    found = []
    before = rows()
    ids = {str(value) for value in theirs.values() if isinstance(value, UUID)}
    for operation in OPERATIONS:
        method, path, body = operation.request(theirs)
        try:
            with transaction.atomic():
                answer = ask(method, path, body)
                changed = before.keys() - rows().keys()
                text = answer.content.decode() if not answer.streaming else ""
                if changed:
                    found.append(f"{operation.id} changed {sorted(changed)[:2]}")
                asked = f"{path} {body}"
                told = {one for one in (CANARY, *ids) if one in text and one not in asked}
                if answer.status_code < 300 and told and operation.id not in shown:
                    found.append(f"{operation.id} told {told}")
                if answer.status_code >= 500 and answer.status_code != 501:
                    found.append(f"{operation.id} answered {answer.status_code}")
                transaction.set_rollback(True)
        except AssertionError as error:
            found.append(f"{operation.id}: {error}")
    return found


def of_key(**options: Any) -> Call:
    caller = Caller(name=options.pop("name", "attacker"), **options)
    # Known from the first request on, so that its own row does not change.
    caller("GET", "/me")

    def ask(method: str, path: str, body: Any) -> Any:
        return caller(method, path, body, If_Match="*")

    return ask


def test_no_operation_is_outside_of_the_walk() -> None:
    assert len(requests.APIS) == 1 and len(OPERATIONS) > 115
    hidden = requests.outside_of_the_documents()
    assert {name.replace("email_", "").partition("_")[0] for name in hidden} == {"nothing"}


def test_the_walk_reaches_what_is_planted() -> None:
    """Whoever may do everything gets somewhere by each of its requests."""
    theirs = planted()
    everyone = of_key(is_staff=True)
    trader = of_key(name="trader", tenants=[theirs["trader"]])
    lost = []
    for operation in OPERATIONS:
        ask = trader if operation.id.startswith("trading_") else everyone
        with transaction.atomic():
            answer = ask(*operation.request(theirs))
            if operation.id in TOO_EARLY:
                assert answer.status_code == 422, operation.id
            elif answer.status_code in (400, 401, 403, 404, 405, 422, 429, 500):
                lost.append((operation.id, answer.status_code, answer.content[:300]))
            transaction.set_rollback(True)
    assert not lost, "\n".join(map(str, lost))


def test_a_key_of_another_tenant_sees_and_changes_nothing() -> None:
    theirs = planted()

    found = walk(of_key(tenants=["elsewhere"]), theirs)
    assert not found, "\n".join(found)


def test_a_key_of_another_queue_sees_and_changes_nothing() -> None:
    theirs = planted()

    found = walk(of_key(queues=["elsewhere"]), theirs, OF_NO_QUEUE)
    assert not found, "\n".join(found)


def test_a_user_without_permissions_sees_and_changes_his_own_tenant_only() -> None:
    theirs = planted()
    user = User.objects.create_user("nobody", password="x")
    client = Client()
    client.force_login(user)
    own = f"user:{user.pk}"
    jobs.emit("mine.told", {"n": 1}, tenant=own)
    jobs.enqueue(Noop(), tenant=own)
    while outbox.relay_once().moved:
        pass

    def ask(method: str, path: str, body: Any) -> Any:
        return call(client, method, path, body, If_Match="*")

    found = walk(ask, theirs)
    assert not found, "\n".join(found)
    [event] = ask("GET", "/events", None).data["data"]
    assert (event["topic"], event["tenant"]) == ("mine.told", own)
    assert ask("GET", "/me", None).data["tenants"] == [own]
