"""Erasing all data of the user."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from ninja import Field, Schema

from jobs.api import In
from trading import verbs
from trading.api.caller import BASE, answered, oneself, section, user_of


class EraseIn(In):
    """Why, for the audit."""

    reason: str = Field(min_length=1, max_length=500)


class ErasedOut(Schema):
    """How many rows were deleted, by table."""

    deleted: dict[str, int]


@section.post(f"{BASE}/erase", "trading_erase", needs="", verb="trader.erase", answer=ErasedOut)
def erase(request: HttpRequest, body: EraseIn) -> Any:
    counted = answered(
        lambda: verbs.erase(user_of(request), by=oneself(request), reason=body.reason)
    )
    return {"deleted": counted}
