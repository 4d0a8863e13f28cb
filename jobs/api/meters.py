"""Meters: how much handlers may call in a time, and which are closed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Schema

from jobs.api import auth
from jobs.api.sections import Section
from jobs.operate import meters
from jobs.operate.permissions import VIEW_METER
from jobs.principals import Principal

section = Section("meters", {"meter": "/meters"})


class MeterOut(Schema):
    """At most ``amount`` in any ``span_ms``, ``burst`` of it at once; null is open."""

    name: str
    amount: float
    span_ms: int
    burst: float
    taken_until: datetime
    closed_until: datetime | None

    @staticmethod
    def resolve_span_ms(row: Any) -> int:
        """Return the span in milliseconds."""
        return int(row.span * 1000)


@section.get("/meters", "meter_list", needs=VIEW_METER, answer=list[MeterOut])
def meter_list(request: HttpRequest) -> Any:
    """List the meters that were used in the last day; for callers who see everything."""
    return list(meters.known()[:1000]) if auth.who(request).scope.is_everything else []


def _reopened(who: Principal, name: str, found: None) -> Any:
    return meters.known().get(name=name)


section.does(
    "meter.reopen", "/meters/reopen", "meter_reopen", answer=MeterOut, show=_reopened
)  # fmt: skip
