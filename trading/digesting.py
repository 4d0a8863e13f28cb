"""Writing a week's digest: a snapshot among the blobs, then the row and the event."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils.translation import gettext_noop as noop

import jobs
from jobs import blobs
from trading import events, ledger
from trading.clock import now
from trading.models import BiasTag, Digest, Label, RuleBreak, Trade
from trading.money import ZERO, add, text, total
from trading.payloads import DigestJob, day, tenant_of

UNLABELLED = "UNLABELLED"
SUGGESTIONS = {
    "KEEP_YOUR_RULES": noop(
        "You broke rules of your own this week. Read them before the next trade."
    ),
    "PAUSE_BEFORE_BUYING": noop(
        "Most of what stands out were buys after a rise. Wait an hour first."
    ),
    "PLAN_YOUR_EXITS": noop(
        "Most of what stands out were sales into a fall. Decide on exits before."
    ),
    "KEEP_GOING": noop("Patient entries outweigh the rest. Keep going."),
    "TRADE_AS_PLANNED": noop("Nothing stands out this week."),
}
"""English in payloads and snapshots, which say the same to everybody; pages translate them."""


def key_of(user: int, start: date, end: date) -> str:
    """Return the key of the snapshot; it holds nothing personal but the user's id."""
    return f"digests/{user}/{start.isoformat()}-{end.isoformat()}.json"


def run(ctx: jobs.Context, payload: DigestJob) -> dict[str, Any]:
    """Aggregate the week, write its snapshot, then row and event in one transaction."""
    user = payload.userId
    if ctx.tenant != tenant_of(user):
        raise jobs.Unrecoverable("NOT_YOURS")
    start, end = day(payload.periodStart), day(payload.periodEnd)
    ctx.progress(1, 5, "LOAD_WINDOW")
    window = _load(user, start, end)
    ctx.progress(2, 5, "AGGREGATE")
    with ctx.span("digest.aggregate", user=user):
        found = _figures(window)
    body = json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
    digest, key = hashlib.sha256(body).hexdigest(), key_of(user, start, end)
    ctx.progress(3, 5, "SNAPSHOT_S3")
    _snapshot(key, body)
    ctx.progress(4, 5, "UPSERT_DB")
    try:
        row, is_new = _store(ctx, window, found, digest, key)
    except Erased:
        raise jobs.Unrecoverable("NOT_FOUND") from None
    except jobs.errors.StaleClaim:
        # The data may have been erased while this process was frozen before its snapshot.
        if not Trade.objects.filter(user_id=user).exists():
            blobs.store().delete(key)
        raise
    ctx.progress(5, 5, "EMIT_READY")
    return {"digestId": str(row.pk), "sha256": digest, "changed": is_new}


class Erased(Exception):
    """The user's data was erased meanwhile; the job that deletes the snapshots comes next."""


def _snapshot(key: str, body: bytes) -> None:
    blobs.store().write(key, body)


def _store(
    ctx: jobs.Context, window: Window, found: dict[str, Any], digest: str, key: str
) -> tuple[Digest, bool]:
    """Store the digest and its event in one transaction; one that has not changed stays as it is.

    Return it, and whether it has changed.
    """
    week: dict[str, Any] = {
        "user_id": window.user,
        "period_start": window.start,
        "period_end": window.end,
    }
    values = {"payload": found, "sha256": digest, "storage_key": key, "delivered_at": now()}
    with transaction.atomic():
        ctx.fence()
        if window.trades and not Trade.objects.filter(pk=window.trades[0].pk).exists():
            raise Erased
        row = Digest.objects.select_for_update(no_key=True).filter(**week).first()
        if row is not None and row.sha256 == digest:
            return row, False
        row, _ = Digest.objects.update_or_create(**week, defaults=values)
        events.digest_ready(row)
    return row, True


def aggregate(user: int, start: date, end: date) -> dict[str, Any]:
    """Return the figures of the week; the same trades and labels give the same figures."""
    return _figures(_load(user, start, end))


@dataclass(frozen=True, slots=True)
class Window:
    """What a digest is made of: the week, and the trades until its end."""

    user: int
    start: date
    end: date
    trades: list[Trade]
    """Also those before the week, whose lots its sales may take."""
    labels: dict[int, str]
    broken: Counter[str]


def _load(user: int, start: date, end: date) -> Window:
    begin, stop = _moment(start), _moment(end)
    trades = ledger.in_order(Trade.objects.filter(user_id=user, is_counted=True, ts__lt=stop))
    tags = BiasTag.objects.filter(user_id=user, is_current=True, trade__ts__lt=stop)
    breaks = RuleBreak.objects.filter(
        user_id=user, trade__ts__gte=begin, trade__ts__lt=stop, trade__is_counted=True
    )
    labels: dict[int, str] = dict(tags.values_list("trade_id", "label"))
    broken = Counter(breaks.values_list("kind", flat=True))
    return Window(user, start, end, trades, labels, broken)


def _figures(window: Window) -> dict[str, Any]:
    begin, trades, labels = _moment(window.start), window.trades, window.labels
    orders = _orders(trades, begin)
    of_orders = [labels.get(trade.pk, UNLABELLED) for trade in orders]
    pieces, unmatched = _realised(trades, begin)
    counts = Counter(of_orders)
    suggestion = _suggestion(counts, sum(window.broken.values()))
    wins = sum(piece.profit > ZERO for piece in pieces)
    held = sum((piece.sell.ts - piece.buy.ts for piece in pieces), timedelta())
    fees: dict[str, Decimal] = defaultdict(lambda: ZERO)
    for trade in trades:
        if trade.ts >= begin:
            fees[trade.fee_asset] = add(fees[trade.fee_asset], trade.fee)
    return {
        "period": {"start": window.start.isoformat(), "end": window.end.isoformat()},
        "orders": len(orders),
        "counts": {label: counts.get(label, 0) for label in (*Label.values, UNLABELLED)},
        "streaks": _streaks(of_orders),
        "realised": {"pieces": len(pieces), "wins": wins,
                     "winRate": f"{wins / len(pieces):.4f}" if pieces else None},
        "holdingHours": f"{held.total_seconds() / 3600 / len(pieces):.2f}" if pieces else None,
        "profit": _profits(pieces, labels),
        "fees": {asset: text(amount) for asset, amount in sorted(fees.items()) if amount},
        "rulesBroken": dict(sorted(window.broken.items())),
        "unmatchedSales": [
            {"tradeId": str(sale.pk), "symbol": sale.symbol, "qty": text(left)}
            for sale, left in unmatched
        ],
        "suggestion": {"code": suggestion, "text": SUGGESTIONS[suggestion]},
    }  # fmt: skip


def _moment(of: date) -> datetime:
    return datetime.combine(of, time(), UTC)


def _orders(trades: Iterable[Trade], begin: datetime) -> list[Trade]:
    """Return the first fill of each order whose first fill lies in the week."""
    first: dict[tuple[str, str], Trade] = {}
    for trade in trades:
        first.setdefault((trade.broker, trade.order_id), trade)
    return [trade for trade in first.values() if trade.ts >= begin]


def _realised(
    trades: Iterable[Trade], begin: datetime
) -> tuple[list[ledger.Piece], list[tuple[Trade, Decimal]]]:
    markets: dict[tuple[str, str], list[Trade]] = defaultdict(list)
    for trade in trades:
        markets[trade.broker, trade.symbol].append(trade)
    pieces, unmatched = [], []
    for _, rows in sorted(markets.items()):
        found = ledger.match(rows)
        pieces += [piece for piece in found.pieces if piece.sell.ts >= begin]
        unmatched += [one for one in found.unmatched if one[0].ts >= begin]
    return pieces, unmatched


def _profits(pieces: Iterable[ledger.Piece], labels: dict[int, str]) -> dict[str, Any]:
    """Return realised profit by quote currency and label, each piece once."""
    found: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    for piece in pieces:
        is_panic = labels.get(piece.sell.pk) == Label.PANIC
        label = Label.PANIC.value if is_panic else labels.get(piece.buy.pk, UNLABELLED)
        of_quote = found[piece.sell.quote]
        of_quote[label] = add(of_quote[label], piece.profit)
    return {
        quote: {
            "byLabel": {label: text(amount) for label, amount in sorted(by_label.items())},
            "total": text(total(by_label.values())),
        }
        for quote, by_label in sorted(found.items())
    }


def _streaks(labels: list[str]) -> dict[str, int]:
    """Return the longest run of orders of each label."""
    longest: dict[str, int] = {}
    length, before = 0, ""
    for label in labels:
        length = length + 1 if label == before else 1
        before = label
        longest[label] = max(longest.get(label, 0), length)
    return dict(sorted(longest.items()))


def _suggestion(counts: Counter[str], broken: int) -> str:
    fomo, panic = counts[Label.FOMO], counts[Label.PANIC]
    if broken:
        return "KEEP_YOUR_RULES"
    if fomo and fomo >= panic:
        return "PAUSE_BEFORE_BUYING"
    if panic:
        return "PLAN_YOUR_EXITS"
    return "KEEP_GOING" if counts[Label.DISCIPLINE] else "TRADE_AS_PLANNED"
