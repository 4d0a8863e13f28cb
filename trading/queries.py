"""Queries for trades."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, Prefetch, QuerySet

from trading.clock import now as now
from trading.models import BiasTag, RuleBreak, Trade


def narrowed(
    rows: QuerySet[Trade],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    symbol: str | None = None,
    side: str | None = None,
    label: str | None = None,
    rule: str | None = None,
) -> QuerySet[Trade]:
    """Return the rows that match every filter."""
    plain = {"ts__gte": since, "ts__lt": until, "symbol": symbol, "side": side}
    rows = rows.filter(**{name: value for name, value in plain.items() if value is not None})
    if label is not None:
        tags = BiasTag.objects.filter(trade=OuterRef("pk"), is_current=True, label=label)
        rows = rows.filter(Exists(tags))
    if rule is not None:
        rows = rows.filter(Exists(RuleBreak.objects.filter(trade=OuterRef("pk"), kind=rule)))
    return rows


def with_labels(rows: QuerySet[Trade]) -> QuerySet[Trade]:
    """Load the current label (as ``current``) and the broken rules with the rows."""
    current = BiasTag.objects.filter(is_current=True)
    return rows.prefetch_related(Prefetch("tags", current, to_attr="current"), "breaks")


def breaks_of(user: int, kind: str) -> int:
    """Return how many trades broke the user's rule."""
    rows = RuleBreak.objects.filter(user_id=user, kind=kind, trade__is_counted=True)
    return rows.count()
