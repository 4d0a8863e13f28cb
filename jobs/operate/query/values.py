"""What may stand behind a key: names, numbers, durations, moments."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.dateparse import parse_datetime

LONGEST = timedelta(days=36_600)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d|w)")
_WHOLE = re.compile(r"-?\d{1,10}\Z", re.ASCII)


class BadValue(ValueError):
    """The value does not fit; ``hint`` is what was probably meant."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(problem)


def text(value: str) -> str:
    if not value or len(value) > 300:
        raise BadValue("must have from 1 to 300 characters")
    return value


def identifier(value: str) -> str:
    try:
        return str(UUID(value))
    except ValueError:
        raise BadValue(f"{value[:60]!r} is no id") from None


def whole(value: str) -> str:
    if not _WHOLE.match(value) or abs(int(value)) > 2_000_000_000:
        raise BadValue(f"{value[:60]!r} is no whole number")
    return str(int(value))


def duration(value: str) -> str:
    seconds_of(value)
    return value


def seconds_of(value: str) -> float:
    """The seconds of ``90s``, ``5m`` or ``1h30m``."""
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise BadValue(f"{value[:60]!r} is no duration like 30s, 5m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > LONGEST.total_seconds():
        raise BadValue("is longer than a hundred years")
    return seconds


def moment(value: str) -> str:
    """A moment with its time zone, or a time before now as it was given."""
    if value.startswith("-"):
        seconds_of(value[1:])
        return value
    try:
        found = parse_datetime(value if len(value) > 10 else f"{value}T00:00:00")
        if found is not None and found.tzinfo is None:
            found = found.replace(tzinfo=timezone.get_current_timezone())
        if found is not None and 1970 < found.year < 9000:
            return found.astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        pass
    raise BadValue(f"{value[:60]!r} is no time like 2026-11-01, 2026-11-01T08:30 or -2h")


def bound(value: str, now: datetime | None = None) -> tuple[str, list[Any]]:
    """The SQL of a moment, counted back from ``now`` or from the database's clock."""
    if not value.startswith("-"):
        return "%s::timestamptz", [value]
    back = seconds_of(value[1:])
    if now is not None:
        return "%s::timestamptz", [(now - timedelta(seconds=back)).isoformat()]
    return "jobs_clock() - %s * interval '1 s'", [back]
