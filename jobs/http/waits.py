"""How long an answer asks its caller to wait."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

MOST = timedelta(days=1).total_seconds()


def retry_after(response: httpx.Response, most: float = MOST) -> float | None:
    """Seconds that the Retry-After header asks for, at most ``most``; None where it says nothing.

    A date counts from the Date header of the same answer: the other side's clock is compared with
    itself.
    """
    told = response.headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,9})?", told):
        return min(float(told), most)
    until, sent = _moment(told), _moment(response.headers.get("date", ""))
    if until is None or sent is None:
        return None
    return min(max(0.0, (until - sent).total_seconds()), most)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
