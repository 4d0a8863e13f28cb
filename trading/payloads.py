"""Payloads of the jobs, and their unique keys."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

import jobs
from trading.clock import day_of, iso

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\Z", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)


def moment(text: str) -> datetime:
    """Return the moment that a payload has written; raise ValueError."""
    if not _ISO.match(text):
        raise ValueError("must be UTC like 2026-01-05T00:00:00.000Z")
    return datetime.fromisoformat(text).astimezone(UTC)


def day(text: str) -> date:
    """Return the day that a payload has written; raise ValueError."""
    if not _DAY.match(text):
        raise ValueError("must be like 2026-01-05")
    return date.fromisoformat(text)


def _moment(text: str) -> str:
    moment(text)
    return text


def _day(text: str) -> str:
    day(text)
    return text


UserId = Annotated[int, Field(ge=1, lt=2**63)]
Moment = Annotated[str, AfterValidator(_moment)]
Day = Annotated[str, AfterValidator(_day)]


class ImportJob(jobs.Payload, kind="import.trades"):
    """Import the fills of a linked account."""

    userId: UserId
    sinceIso: Moment
    broker: Annotated[str, Field(pattern="^(coinbase|binance)$")] | None = None


class ScoreJob(jobs.Payload, kind="score.bias"):
    """Label a user's trades since a moment."""

    userId: UserId
    sinceIso: Moment


class SimJob(jobs.Payload, kind="simulate.simple"):
    """Compare a trade with holding."""

    userId: UserId
    tradeId: Annotated[int, Field(ge=1, lt=2**63)]
    horizonDays: Annotated[int, Field(ge=1, le=30)]


class DigestJob(jobs.Payload, kind="digest.weekly"):
    """Write a user's digest of a week."""

    userId: UserId
    periodStart: Day
    periodEnd: Day

    @model_validator(mode="after")
    def _is_a_week(self) -> DigestJob:
        start, end = day(self.periodStart), day(self.periodEnd)
        if start.weekday() != 0 or end - start != timedelta(days=7):
            raise ValueError("a period is one week, from Monday to Monday")
        return self


class EraseSnapshots(jobs.Payload, kind="trading.erase_snapshots"):
    """Delete the snapshots of a user whose data was erased."""

    userId: UserId


class PlanImports(jobs.Payload, kind="trading.plan_imports"):
    """Enqueue the daily import of every active link."""


class PlanDigests(jobs.Payload, kind="trading.plan_digests"):
    """Enqueue the digest of last week for every user with trades."""


def _key(*parts: object) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


def import_key(user: int, since: datetime, broker: str = "") -> str:
    """Return the unique key of an import."""
    return _key(user, iso(day_of(since)), *([broker] if broker else []))


def score_key(user: int, since: datetime) -> str:
    """Return the unique key of a scoring."""
    return _key(user, iso(day_of(since)))


def simulation_key(user: int, trade: int, days: int) -> str:
    """Return the unique key of a comparison."""
    return _key(user, trade, days)


def digest_key(user: int, start: date, end: date) -> str:
    """Return the unique key of a digest."""
    return _key(user, start.isoformat(), end.isoformat())


def tenant_of(user: int) -> str:
    """Return the tenant of a user's jobs and events."""
    return f"user:{user}"


def snapshots_of(user: int) -> str:
    """Return the exclusive key of the jobs that write or delete a user's snapshots."""
    return f"trading:snapshots:{user}"
