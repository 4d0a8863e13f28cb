"""The trading coach in the demo: a venue on loopback, and the project's own AI service."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar

from django.contrib.auth import get_user_model

from config.standins.trading import Account, Coinbase, Fault, Gate, new_account
from jobs import demo
from trading import importing, services
from trading.clock import now, week_of
from trading.fills import read_fill
from trading.models import BiasTag, BrokerConnection, Digest, ImportRun, ScoreRun, Simulation, Trade


class TradingAct(demo.Act):
    """A trader of the demo, with an account at the venue."""

    queues = ("q_import", "q_score", "q_sim", "q_digest")
    _venue: ClassVar[Coinbase | None] = None
    _gate: ClassVar[Gate | None] = None

    def prepare(self) -> Mapping[str, str]:
        if TradingAct._venue is not None:
            return {}
        TradingAct._venue = Coinbase().start()
        TradingAct._gate = Gate(f"{self.url}/ai").start()
        return {
            "COINBASE_URL": TradingAct._venue.url, "AI_BASE_URL": TradingAct._gate.url,
            "AI_HMAC_KEY_ID": "demo", "AI_HMAC_SECRET": secrets.token_hex(16),
            "HTTP_ALLOW": "127.0.0.0/8,localhost",
        }  # fmt: skip

    @property
    def venue(self) -> Coinbase:
        """Return the venue that ``prepare`` has started."""
        assert TradingAct._venue is not None  # noqa: S101
        return TradingAct._venue

    @property
    def gate(self) -> Gate:
        """Return the gate in front of the AI service."""
        assert TradingAct._gate is not None  # noqa: S101
        return TradingAct._gate

    def linked(self) -> BrokerConnection:
        """Return a linked account of a new trader, with the twelve trades of the plan."""
        name = f"demo-{type(self).__name__.lower()}-{self.mark}"[:150]
        user, _ = get_user_model().objects.get_or_create(username=name)
        self.account: Account = self.venue.add(new_account(name))
        self.account.fills = self.venue.market.fills()
        self.link = BrokerConnection.objects.create(
            id=uuid.uuid4(), user=user, broker="coinbase", key_name=self.account.name,
            secret=self.account.secret, is_daily=False,
        )  # fmt: skip
        return self.link

    def stored(self) -> int:
        """Store the trades without an import; return the user."""
        user = self.linked().user_id
        importing.upsert(user, "coinbase", [read_fill(row) for row in self.account.fills])
        return user

    def leave(self) -> None:
        if TradingAct._venue is not None and TradingAct._gate is not None:
            TradingAct._venue.stop()
            TradingAct._gate.stop()
            TradingAct._venue = TradingAct._gate = None


@demo.shown
class AnImport(TradingAct):
    title = "fills that are labelled"

    def begin(self) -> None:
        self.ids = [services.start_import(self.linked(), by="demo")]

    def step(self) -> str:
        run = ImportRun.objects.get(pk=self.ids[0])
        if len(self.ids) > 1 or run.state != "DONE":
            return ""
        self.ids += ScoreRun.objects.filter(user_id=run.user_id).values_list("pk", flat=True)
        return f"{run.stored} fills are stored; now they are labelled"

    def is_over(self) -> bool:
        return len(self.ids) > 1 and super().is_over()

    def verdict(self) -> demo.Verdict:
        tags = BiasTag.objects.filter(user_id=self.link.user_id, is_current=True)
        found = list(tags.order_by("trade__ts").values_list("label", flat=True))
        wanted = [order.label for order in self.venue.market.orders]
        counts = ", ".join(f"{found.count(label)} {label}" for label in sorted(set(found)))
        return found == wanted, f"{len(found)} labels", counts


@demo.shown
class ABusyVenue(AnImport):
    title = "a venue that asks to wait"

    def begin(self) -> None:
        super().begin()
        self.venue.plan("fills", *[Fault(429, {"Retry-After": "1"}) for _ in range(2)])


@demo.shown
class AnAbsentService(AnImport):
    title = "an AI service that is away"
    missed = 2
    """Requests without an answer, of this scene or another: a job has three attempts."""

    def begin(self) -> None:
        super().begin()
        self.gate.drop(self.missed)

    def verdict(self) -> demo.Verdict:
        is_well, how, counts = super().verdict()
        dropped = self.gate.dropped
        return is_well and dropped == self.missed, how, f"{counts}; {dropped} requests were lost"


@demo.shown
class AComparison(TradingAct):
    title = "a trade compared with holding"

    def begin(self) -> None:
        user = self.stored()
        trade = Trade.objects.filter(user_id=user, side="BUY").order_by("ts")[0]
        found = services.simulate(user, trade.pk, 7)
        self.ids = [found.job_id] if found.job_id else []

    def verdict(self) -> demo.Verdict:
        row = Simulation.objects.get(user_id=self.link.user_id)
        return row.delta is not None, f"{len(row.curves)} hours", f"holding: {row.delta:+.2f} USD"


@demo.shown
class ADigest(TradingAct):
    title = "a digest of last week"

    def begin(self) -> None:
        user = self.stored()
        end = week_of(now()).date()
        self.ids = [services.enqueue_digest(user, end - timedelta(days=7), end)]

    def verdict(self) -> demo.Verdict:
        row = Digest.objects.filter(user_id=self.link.user_id).first()
        if row is None:
            return False, "no digest", ""
        return bool(row.payload["orders"]), f"{row.payload['orders']} orders", row.storage_key
