"""Labelling trades in batches: figures and sentences first, then one transaction for each batch."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

from django.db import transaction
from django.db.models import Q

import jobs
from jobs.flow import CircuitOpen
from trading import events, market, rules, states
from trading.ai import bias, indicators, reflect
from trading.clients import ai
from trading.clock import after_month, day_of, iso, month_of, now
from trading.config import BATCH, RULES_VERSION, STRETCH, settings
from trading.errors import AiAway, AiRefused, VenueAway, VenueError
from trading.models import (
    BiasTag,
    Insight,
    Rule,
    RuleBreak,
    ScoreRun,
    ScoreState,
    Source,
    Trade,
)
from trading.payloads import ScoreJob, score_key, tenant_of

HISTORY = timedelta(hours=250)
"""What a month's series has before it: the trade alone decides where the series begins."""
SPARK = 24
S = ScoreState
_ROUND = (S.INDICATORS, S.HEURISTICS, S.PERSIST, S.EMIT_REFLECT, S.NEXT_BATCH, S.LOAD_TRADES)


class Failed(jobs.JobsError):
    """The attempt has failed and may be repeated; names a code."""


def enqueue(user: int, since: datetime) -> UUID:
    """Enqueue a scoring of the user's trades since that day, in the caller's transaction.

    One that waits for the same day takes this in; one that runs may have passed what is new, so
    another follows it.
    """
    day = day_of(since)
    made = jobs.enqueue(
        ScoreJob(userId=user, sinceIso=iso(day)),
        tenant=tenant_of(user),
        unique=jobs.Unique(score_key(user, day), "waiting"),
        exclusive=f"trading:score:{user}",
    )
    ScoreRun.objects.get_or_create(pk=made.id, defaults={"user_id": user, "since": day})
    return made.id


@dataclass(slots=True)
class Verdict:
    """The label of a trade, with its figures and its sentence."""

    trade: Trade
    scored: bias.Scored
    sparkline: list[float]
    spike: str = ""
    insight: str = ""


@dataclass(slots=True)
class Series:
    """The hours of a symbol and month, and their indicators."""

    candles: list[bias.Candle]
    found: indicators.Indicators | None = None
    reason: str = ""
    source: str = ""
    """Who has named the prices, where it was not the venue."""


@dataclass(slots=True)
class Desk:
    """What a run keeps between batches."""

    ctx: jobs.Context
    row: ScoreRun
    series: dict[tuple[tuple[str, str], datetime], Series] = field(default_factory=dict)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)
    held: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)


def run(ctx: jobs.Context, payload: ScoreJob) -> dict[str, Any]:
    """Score batch by batch; raise the outcome of the job otherwise."""
    if ctx.tenant != tenant_of(payload.userId):
        raise jobs.Unrecoverable("NOT_YOURS")
    row = ScoreRun.objects.filter(pk=ctx.job_id, user_id=payload.userId).first()
    if row is None:
        raise jobs.Unrecoverable("NOT_FOUND")
    if row.state == S.DONE:
        return _result(row)
    if not (settings().has_ai or settings().HEURISTICS_ONLY):
        _give_up(ctx, row, "NOT_SET_UP")
    if row.state == S.FAILED:
        with transaction.atomic():
            ctx.fence()
            states.scores.move(row, S.LOAD_TRADES, by="worker", error="")
    began = time.monotonic()
    active = Rule.objects.filter(user_id=row.user_id, is_active=True)
    desk = Desk(ctx, row, rules={rule.kind: rule.params for rule in active})
    while batch := _load(row):
        verdicts = _judge(desk, batch)
        _store(desk, verdicts)
        ctx.checkpoint()
        if time.monotonic() - began > STRETCH:
            raise jobs.Snooze(0, "others may run")
    with transaction.atomic():
        ctx.fence()
        states.scores.move(row, S.DONE, by="worker", ended_at=now(), error="")
    return _result(row)


def _result(row: ScoreRun) -> dict[str, Any]:
    return {"scored": row.scored, "changed": row.changed}


def _give_up(ctx: jobs.Context, row: ScoreRun, code: str) -> NoReturn:
    with transaction.atomic():
        ctx.fence()
        if row.state != S.FAILED:
            states.scores.move(row, S.FAILED, by="worker", error=code, ended_at=now())
    raise jobs.Unrecoverable(code)


def _load(row: ScoreRun) -> list[Trade]:
    rows = Trade.objects.filter(user_id=row.user_id, is_counted=True, ts__gte=row.since)
    if row.position_ts is not None:
        later = Q(ts__gt=row.position_ts) | Q(ts=row.position_ts, id__gt=row.position_id)
        rows = rows.filter(later, ts__gte=row.position_ts)
    return list(rows.order_by("ts", "id")[:BATCH])


# ---- judging


def _judge(desk: Desk, batch: list[Trade]) -> list[Verdict]:
    """Return the verdicts of a batch; nothing is written but sentences."""
    try:
        verdicts = [_verdict(desk, trade) for trade in batch]
        _add_insights(desk, verdicts)
    except CircuitOpen:
        _note(desk, "AI_AWAY")
        raise
    except AiAway:
        _note(desk, "AI_AWAY")
        raise Failed("AI_AWAY") from None
    except VenueAway as error:
        _note(desk, error.code)
        raise Failed(error.code) from None
    except VenueError as error:
        _give_up(desk.ctx, desk.row, error.code)
    return verdicts


def _note(desk: Desk, code: str) -> None:
    """Note why the run does not go on; the next batch that is stored clears it."""
    with transaction.atomic():
        desk.ctx.fence()
        ScoreRun.objects.filter(pk=desk.row.pk).update(error=code)


def _verdict(desk: Desk, trade: Trade) -> Verdict:
    with desk.ctx.span("score.trade", trade=trade.pk):
        series = _series(desk, trade)
        entry = trade.ts.timestamp()
        last = bias.last_closed(series.candles, entry)
        spark = [candle.close for candle in series.candles[max(0, last + 1 - SPARK) : last + 1]]
        if series.reason:
            return Verdict(trade, bias.neutral(series.reason), spark)
        if last + 1 < bias.LEAST:
            return Verdict(trade, bias.neutral("too_little_history"), spark)
        if series.found is None:
            _add_indicators(desk, trade.symbol, series)
            if series.found is None:
                return Verdict(trade, bias.neutral(series.reason), spark)
        scored = bias.score(series.candles, series.found, trade.side, entry, float(trade.price))
        if series.source:
            scored.features["prices"] = series.source
        rule = desk.rules.get(Rule.Kind.AVOID_SPIKE)
        spike = rules.spike_broken(rule, trade, series.candles, last) if rule else ""
        return Verdict(trade, scored, spark, spike)


def _series(desk: Desk, trade: Trade) -> Series:
    market_of = trade.broker, trade.symbol
    key = market_of, month_of(trade.ts)
    if key not in desk.series:
        try:
            source, rows = market.prices(*market_of, key[1] - HISTORY, after_month(key[1]))
            by = "" if source == trade.broker else source
            desk.series[key] = Series(market.as_candles(rows), source=by)
        except VenueError as error:
            if error.code != "VENUE_REFUSED":
                raise
            desk.series[key] = Series([], reason="no_market_data")
    return desk.series[key]


def _add_indicators(desk: Desk, symbol: str, series: Series) -> None:
    if settings().HEURISTICS_ONLY:
        rows = series.candles
        series.found = indicators.compute(
            [c.high for c in rows], [c.low for c in rows], [c.close for c in rows]
        )
        return
    try:
        series.found = ai.indicators(symbol, series.candles)
    except AiRefused as error:
        series.reason = str(error).lower()


def _add_insights(desk: Desk, verdicts: list[Verdict]) -> None:
    """Give each verdict the sentence of its order and label; a missing one is written once."""
    wanted: dict[tuple[str, str, str], Verdict] = {}
    for verdict in verdicts:
        trade = verdict.trade
        wanted.setdefault((trade.broker, trade.order_id, verdict.scored.label), verdict)
    user = desk.row.user_id
    known = {
        (row.broker, row.order_id, row.label): row.text
        for row in Insight.objects.filter(
            user_id=user, order_id__in={order for _, order, _ in wanted}
        )
    }
    for (broker, order, label), verdict in wanted.items():
        if (broker, order, label) in known:
            continue
        text = _sentence(label, verdict.scored.features)
        with transaction.atomic():
            desk.ctx.fence()
            if not ScoreRun.objects.filter(pk=desk.row.pk).exists():
                raise jobs.Unrecoverable("NOT_FOUND")  # the user's data was erased meanwhile
            row, _ = Insight.objects.get_or_create(
                user_id=user, broker=broker, order_id=order, label=label, defaults={"text": text}
            )
        known[broker, order, label] = row.text
        desk.ctx.checkpoint()
    for verdict in verdicts:
        trade = verdict.trade
        verdict.insight = known[trade.broker, trade.order_id, verdict.scored.label]


def _sentence(label: str, features: dict[str, Any]) -> str:
    if not settings().HEURISTICS_ONLY:
        try:
            return ai.reflect(label, features)
        except AiRefused:
            pass  # a sentence less is no reason to withhold a label
    return reflect.insight(label, features, ai.TONE, ai.MOST)


# ---- storing


def _store(desk: Desk, verdicts: list[Verdict]) -> None:
    """Write a batch in one transaction, and emit an event for each label that changed."""
    row, last = desk.row, verdicts[-1].trade
    with transaction.atomic():
        desk.ctx.fence()
        changed = _save_tags(verdicts)
        _save_breaks(desk, verdicts)
        given = Q(scored=row.scored, position_id=row.position_id)
        states.scores.walk(
            row, _ROUND, by="worker", given=given, position_ts=last.ts, position_id=last.pk,
            scored=row.scored + len(verdicts), changed=row.changed + len(changed), error="",
        )  # fmt: skip
        for trade, tag in changed:
            events.reflect(trade, tag)


def _save_tags(verdicts: list[Verdict]) -> list[tuple[Trade, BiasTag]]:
    """Store the labels; return those that are new or differ from what was there."""
    keys = [verdict.trade.pk for verdict in verdicts]
    known = {
        tag.trade_id: tag
        for tag in BiasTag.objects.select_for_update(no_key=True).filter(
            trade_id__in=keys, is_current=True
        )
    }
    # A fill that a reversal has taken out meanwhile gets no label.
    counts = set(Trade.objects.filter(pk__in=keys, is_counted=True).values_list("pk", flat=True))
    source = Source.HEURISTICS if settings().HEURISTICS_ONLY else Source.AI
    new: list[tuple[Trade, BiasTag]] = []
    gone: list[Any] = []
    for verdict in verdicts:
        trade, scored = verdict.trade, verdict.scored
        if trade.pk not in counts:
            continue
        fields = {
            "confidence": Decimal(f"{scored.confidence:.2f}"), "features": scored.features,
            "sparkline": verdict.sparkline, "insight": verdict.insight, "source": source,
            "rules_version": RULES_VERSION,
        }  # fmt: skip
        tag = known.get(trade.pk)
        if tag is not None and tag.label == scored.label:
            if any(getattr(tag, name) != value for name, value in fields.items()):
                BiasTag.objects.filter(pk=tag.pk).update(**fields)
            continue
        if tag is not None:
            gone.append(tag.pk)
        made = BiasTag(user_id=trade.user_id, trade=trade, label=scored.label, **fields)
        new.append((trade, made))
    BiasTag.objects.filter(pk__in=gone).update(is_current=False)
    BiasTag.objects.bulk_create(tag for _, tag in new)
    return new


def _save_breaks(desk: Desk, verdicts: list[Verdict]) -> None:
    held = _held(desk, [verdict.trade for verdict in verdicts])
    found: list[RuleBreak] = []
    for verdict in verdicts:
        pk = verdict.trade.pk
        for kind, figure in (
            (Rule.Kind.AVOID_SPIKE, verdict.spike), (Rule.Kind.MIN_HOLD, held.get(pk, "")),
        ):  # fmt: skip
            if figure:
                found.append(
                    RuleBreak(user_id=desk.row.user_id, trade_id=pk, kind=kind, figure=figure)
                )
    RuleBreak.objects.filter(trade_id__in=[verdict.trade.pk for verdict in verdicts]).delete()
    RuleBreak.objects.bulk_create(found)


def _held(desk: Desk, trades: Iterable[Trade]) -> dict[int, str]:
    """Return the hours of sales that were too early, by trade."""
    rule = desk.rules.get(Rule.Kind.MIN_HOLD)
    if rule is None:
        return {}
    markets: dict[tuple[str, str], list[Trade]] = defaultdict(list)
    for trade in trades:
        markets[trade.broker, trade.symbol].append(trade)
    found: dict[int, str] = {}
    for broker, symbol in markets:
        if (broker, symbol) not in desk.held:
            rows = Trade.objects.filter(user_id=desk.row.user_id, broker=broker, symbol=symbol)
            desk.held[broker, symbol] = rules.holds_broken(rule, rows)
        found |= desk.held[broker, symbol]
    return found
