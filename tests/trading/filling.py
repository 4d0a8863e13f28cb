"""A trader with everything that the pages show."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import connections

from config.standins.trading import Coinbase, Fault, new_account
from jobs.testing import run_jobs
from tests.trading.factories import linked
from trading import services, verbs
from trading.clock import now, week_of
from trading.models import BrokerConnection, Digest, ImportRun, Rule, Trade


def fill(venue: Coinbase) -> dict[str, Any]:
    """Ids of what the pages are about."""
    account = venue.add(new_account("organizations/acme/apiKeys/trader"))
    account.fills = venue.market.fills()
    link = linked(account)
    done = services.start_import(link, by="tests")
    run_jobs()
    params = {"pct": 5.0, "lookbackHours": 24}
    who = link.user_id
    Rule.objects.create(user_id=who, kind=Rule.Kind.AVOID_SPIKE, params=params)
    Rule.objects.create(user_id=who, kind=Rule.Kind.MIN_HOLD, params={"hours": 24}, is_active=False)
    services.rescore(who)
    end = week_of(now()).date()
    services.enqueue_digest(who, end - timedelta(days=7), end)
    trades = Trade.objects.filter(user_id=who).order_by("ts")
    bought = trades.filter(side="BUY")[0]
    for days in (3, 30):
        services.simulate(who, bought.pk, days)
    run_jobs()
    venue.plan("fills", Fault(429, {"Retry-After": "3600"}))
    waiting = services.start_import(link, by="tests")
    run_jobs()
    other = linked(venue.add(new_account("organizations/acme/apiKeys/other")), "other")
    verbs.pause(other.pk, by="tests", reason="to show it")
    binance = BrokerConnection.objects.create(
        user_id=who, broker="binance", key_name="key", secret="secret",
        symbols=["BTC-USDT", "ETH-USDT"], is_daily=False,
    )  # fmt: skip
    ids = {
        "binance": binance.pk, "link": link.pk, "paused": other.pk, "import": done,
        "waiting": waiting, "trade": bought.pk,
        "rule": Rule.objects.get(kind=Rule.Kind.AVOID_SPIKE).pk,
        "digest": Digest.objects.get().pk,
    }  # fmt: skip
    assert ImportRun.objects.get(pk=waiting).state == "RETRY"
    connections.close_all()
    return ids


def screens(ids: dict[str, Any]) -> dict[str, str]:
    """Addresses below the admin, by name."""
    return {
        "links": "trading/brokerconnection/",
        "link": f"trading/brokerconnection/{ids['link']}/change/",
        "link-new": "trading/brokerconnection/do/link/",
        "link-login": "trading/brokerconnection/do/login/",
        "link-new-binance": "trading/brokerconnection/do/link-binance/",
        "link-binance": f"trading/brokerconnection/{ids['binance']}/change/",
        "link-markets": f"trading/brokerconnection/{ids['binance']}/do/set-symbols/",
        "link-revoke": f"trading/brokerconnection/{ids['link']}/do/revoke/",
        "imports": "trading/importrun/",
        "import": f"trading/importrun/{ids['import']}/change/",
        "import-waiting": f"trading/importrun/{ids['waiting']}/change/",
        "trades": "trading/trade/",
        "trades-narrowed": "trading/trade/?label=FOMO&side=BUY&from=2020-01-01",
        "trades-none": "trading/trade/?symbol=DOGE-USD",
        "trade": f"trading/trade/{ids['trade']}/change/",
        "rules": "trading/rule/",
        "rule": f"trading/rule/{ids['rule']}/change/",
        "rule-set": "trading/rule/do/set/",
        "digests": "trading/digest/",
        "digest": f"trading/digest/{ids['digest']}/change/",
    }


NAMES = list(
    screens(dict.fromkeys(("binance", "link", "import", "waiting", "trade", "rule", "digest"), ""))
)
"""Every screen."""
DIFFERING = {"links", "import", "trade", "link-new", "digest"}
"""One of each kind: enough where only the theme or the version of Django is another."""
