"""What an explanation is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from jobs.engine import sql
from jobs.models import Lease
from jobs.operate.phrases import Phrase, plain, say

SHOWN = 10
"""This many ids are named at most."""
COUNTED = 1000
"""Counts stop here."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a job from running, or says what became of it.

    ``until`` is the moment at which it ends by itself, where that is known. ``ids`` name the jobs,
    dead letters or effects that it is about. The ``text`` is English; ``told`` says the same in
    the caller's language.
    """

    code: str
    text: str
    until: datetime | None = None
    ids: tuple[str, ...] = ()
    told: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a job is and why; the first reason matters most."""

    job_id: UUID
    state: str | None
    """None where there is no such job."""
    reasons: tuple[Reason, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(reason.code for reason in self.reasons)

    @property
    def words(self) -> str:
        return "\n".join(reason.text for reason in self.reasons)

    def as_data(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "job_id": str(self.job_id),
            "state": self.state,
            "reasons": [
                {
                    "code": reason.code,
                    "text": reason.text,
                    "until": reason.until and reason.until.isoformat(),
                    "ids": list(reason.ids),
                }
                for reason in self.reasons
            ],
        }


def reason(
    code: str, words: Phrase, until: datetime | None = None, ids: tuple[str, ...] = ()
) -> Reason:
    """The reason in these words, in two languages."""
    return Reason(code, words.english, until, ids, words.told)


def moment(at: datetime) -> Phrase:
    """In UTC for programs, and in the caller's time zone."""
    local = timezone.localtime(at)
    offset = local.strftime("%z")
    zone = "UTC" if not local.utcoffset() else f"UTC{offset[:3]}:{offset[3:]}"
    return Phrase(f"{at:%Y-%m-%d %H:%M:%S %Z}", f"{local:%Y-%m-%d %H:%M:%S} {zone}")


def worker_word(lease: Lease | None) -> Phrase:
    """The worker that holds the lease."""
    return plain(lease.worker) if lease else say("an unknown worker")


def because(why: str | None) -> Phrase:
    """What follows words for which somebody gave a reason."""
    return plain(f": {why}" if why else "")


def count(statement: str, parameters: list[Any]) -> int:
    """How many rows there are; one more than are counted, where there are more."""
    limited = f"SELECT count(*) FROM ({statement} LIMIT %s) c"  # noqa: S608 - constant text
    [(found,)] = sql.rows(limited, [*parameters, COUNTED + 1])
    return int(found)
