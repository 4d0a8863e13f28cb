"""Which of what has ended goes: what lies before a moment, or before the last N of its kind.

A place is a moment and an id; along an index by both, everything before its kind's place goes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from jobs import registry
from jobs.engine import sql
from jobs.retention import Keep

COUNTED = 5000
"""Rows that one statement looks at while it only counts."""
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
NOBODY = UUID(int=0)

Place = tuple[datetime, Any]


@dataclass(frozen=True, slots=True)
class Portion:
    """What one step of a sweep did: how many rows of each table went, or would have gone."""

    rows: Mapping[str, int]


NOTHING = Portion({})
Steps = Generator[Portion, None, None]
T = TypeVar("T")
Finding = Generator[Portion, None, T]
"""Steps after which something is known."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is walked backwards to count: ``newest`` takes a place and how many rows."""

    newest: str
    """Answers id, kind and moment, newest first."""
    given: Sequence[Any] = ()
    """What it takes before the place."""
    no_id: Any = NOBODY
    """Comes before every id."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything goes that lies before the place of its kind, or before the place of all others."""

    usual: Place
    by_kind: Mapping[str, Place]

    @property
    def newest(self) -> datetime:
        """Nothing that is later goes."""
        return max(self.usual, *self.by_kind.values())[0] if self.by_kind else self.usual[0]

    def lets_go(self, kind: str, moment: datetime, row_id: Any) -> bool:
        return (moment, row_id) < self.by_kind.get(kind, self.usual)


def keeps(rule: str) -> dict[str, tuple[str, Keep]]:
    """What handlers say under this name: by every name of the kind, the kind and what it keeps."""
    found: dict[str, tuple[str, Keep]] = {}
    for handler in registry.handlers() if rule else []:
        keep: Keep | None = getattr(handler, rule)
        if keep is not None:
            for name in (handler.kind, *handler.payload.aliases):
                found[name] = (handler.kind, keep)
    return found


def rules(table: Table, default: timedelta, by_kind: Mapping[str, tuple[str, Keep]]) -> Finding[
    Rules
]:  # fmt: skip
    """What goes now, of all kinds."""
    [(now,)] = sql.rows("SELECT jobs_clock()")
    lasts = {kind: keep.last for kind, keep in by_kind.values() if keep.last is not None}
    oldest = (yield from _oldest_kept(table, by_kind, lasts, now)) if lasts else {}
    places = {}
    for name, (kind, keep) in by_kind.items():
        by_time = (FIRST if keep.time is None else now - keep.time, table.no_id)
        places[name] = max(by_time, oldest.get(kind, by_time))
    return Rules((now - default, table.no_id), places)


def _oldest_kept(
    table: Table, by_kind: Mapping[str, tuple[str, Keep]], lasts: Mapping[str, int], now: datetime
) -> Finding[dict[str, Place]]:
    """Of kinds that keep their last N, the place of the oldest of these, where there is."""
    left = dict(lasts)
    places: dict[str, Place] = {kind: (now, table.no_id) for kind, keep in left.items() if not keep}
    wanted = {kind for kind, keep in left.items() if keep}
    place: Place = (now + timedelta(days=1), table.no_id)
    while wanted:
        page = sql.bound_rows(table.newest, [*table.given, *place, COUNTED])
        for row_id, name, moment in page:
            kind = by_kind[name][0] if name in by_kind else ""
            if kind in wanted:
                left[kind] -= 1
                if left[kind] == 0:
                    places[kind] = (moment, row_id)
                    wanted.remove(kind)
        yield NOTHING
        if len(page) < COUNTED:
            break
        place = (page[-1][2], page[-1][0])
    return places
