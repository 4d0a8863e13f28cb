"""Keys of Binance, tokens of logins and the vendor's key, and what these say, are found nowhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from config.standins.trading import (
    Account,
    Binance,
    BinanceAccount,
    Coinbase,
    Fault,
    Vendor,
    binance_fills,
)
from config.standins.trading.logins import CLIENT_SECRET
from config.standins.trading.vendor import KEY
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.trading.factories import user
from tests.trading.test_api import Caller
from tests.trading.test_login import linked
from tests.trading.test_privacy import (
    CANARY,
    everything_in_redis,
    everything_stored,
    pages_of_the_admin,
    traces,
)
from trading import links, services
from trading.models import BrokerConnection, ImportRun

__all__ = ["traces"]  # a fixture
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.slow
def test_they_are_stored_published_and_logged_nowhere(
    venue: Coinbase, login: Account, binance: Binance, vendor: Vendor,
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str],
    traces: InMemorySpanExporter,
) -> None:  # fmt: skip
    account = binance.add(BinanceAccount(f"{CANARY}-key", f"{CANARY}-secret"))
    account.fills = binance_fills(binance.market)
    ann = Caller("trader")
    by_login = linked(ann)
    checked = links.check_key("binance", account.key, account.secret, may_trade=False)
    by_key = links.store(ann.user.pk, checked, by="tests")
    secrets = [CANARY, CLIENT_SECRET, KEY, str(by_login.access_token), str(by_login.refresh_token)]
    answers = [ann.get("/brokers").content.decode()]
    faults: tuple[tuple[Any, str, Fault], ...] = (
        (binance, "myTrades", Fault(500, {"X-Told": CANARY}, CANARY)),
        (binance, "myTrades", Fault(400, body=json.dumps({"code": -1, "msg": CANARY}))),
        (venue, "token", Fault(400, body=json.dumps({"error": CANARY}))),
        (venue, "token", Fault(200, body=json.dumps({"access_token": CANARY}))),
    )
    with freeze_clock() as clock:
        for where, what, fault in faults:
            where.plan(what, fault)
            venue.logins.expire()
            for link in (by_key, by_login):
                link.refresh_from_db()
                services.start_import(link, by="tests")
            run_jobs()
            clock.tick(61)
            run_jobs()
        cache.clear()
        for market in (venue, binance):
            market.plan("candles", *[Fault(500, body=CANARY)] * 60)
            market.plan("klines", *[Fault(500, body=CANARY)] * 60)
        vendor.plan("histohour", Fault(200, body=json.dumps({"Message": CANARY, "Type": 1})))
        services.rescore(ann.user.pk)
        run_jobs()
        clock.tick(61)
        run_jobs()
    secrets += [str(BrokerConnection.objects.get(pk=by_login.pk).refresh_token)]
    assert "LOGIN_REFUSED" in set(ImportRun.objects.values_list("error", flat=True))
    for body in ({"keyName": CANARY, "secret": CANARY}, {"keyName": CANARY, "secret": [CANARY]}):
        refused = ann.post("/brokers/binance/connect", body)
        assert refused.status_code == 422
        answers.append(refused.content.decode())
    answers += [ann.get(path).content.decode() for path in ("/brokers", "/imports", "/trades")]
    boss = user("boss")
    boss.is_staff = boss.is_superuser = True
    boss.save()
    output = capsys.readouterr()
    places = {
        "pages": pages_of_the_admin(boss), "database": everything_stored(), "log": caplog.text,
        "events": json.dumps([event.payload for event in emitted()]), "api": "".join(answers),
        "output": output.out + output.err, "redis": everything_in_redis(),
        "traces": "".join(span.to_json() for span in traces.get_finished_spans()),
        "repr": repr([by_key, by_login, checked]),
    }  # fmt: skip
    for secret in secrets:
        assert [name for name, text in places.items() if secret in text] == [], secret
