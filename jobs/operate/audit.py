"""Reading the audit: who did what, newest first, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from jobs.engine import sql
from jobs.errors import Denied, InvalidOption
from jobs.models import Audit
from jobs.models.audit import OUTCOMES
from jobs.names import label_problem
from jobs.principals import By, Scope, principal

LIMIT = 500

Place = tuple[datetime, UUID]
"""Where a page ended: time and id of its last row."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and where the next ones begin."""

    rows: Sequence[Audit]
    after: Place | None


def entries(
    *,
    by: By,
    actor: str = "",
    action: str = "",
    target_kind: str = "",
    target_id: str = "",
    outcome: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    after: Place | None = None,
    limit: int = 100,
) -> Page:
    """The acts that fit everything given, within the reader's scope.

    ``action`` ending in a dot takes all that begin so (``job.``). Raises Denied without
    ``view_audit``.
    """
    who = principal(by)
    if not who.may("view_audit"):
        raise Denied("view_audit")
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= LIMIT:
        raise InvalidOption("limit", f"must be a whole number from 1 to {LIMIT}, got {limit!r}")
    if outcome and outcome not in OUTCOMES:
        raise InvalidOption("outcome", f"must be one of {', '.join(OUTCOMES)}, got {outcome!r}")
    if target_id and not target_kind:
        raise InvalidOption("target_id", "goes with target_kind")
    wanted = _within(who.scope)
    texts = {"actor": actor, "target_kind": target_kind, "target_id": target_id}
    for name, value in (*texts.items(), ("action", action)):
        if value != "" and (problem := label_problem(value, 200)):
            raise InvalidOption(name, problem)
    wanted &= Q(**{name: value for name, value in (*texts.items(), ("outcome", outcome)) if value})
    if action:
        wanted &= Q(action__startswith=action) if action.endswith(".") else Q(action=action)
    for name, moment in (("at__gte", since), ("at__lt", until)):
        if moment is not None:
            wanted &= Q(**{name: _aware(name, moment)})
    if after is not None:
        wanted &= Q(at__lt=after[0]) | Q(at=after[0], id__lt=after[1])
    found = list(Audit.objects.using(sql.alias()).filter(wanted)[: limit + 1])
    rows = found[:limit]
    return Page(rows, (rows[-1].at, rows[-1].id) if len(found) > limit else None)


def _within(scope: Scope) -> Q:
    wanted = Q()
    if scope.tenants is not None:
        wanted &= Q(tenant__in=sorted(scope.tenants))
    if scope.queues is not None:
        wanted &= Q(queue__in=sorted(scope.queues))
    return wanted


def _aware(name: str, moment: Any) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        option = "since" if name == "at__gte" else "until"
        raise InvalidOption(option, f"must be a datetime with a time zone, got {moment!r}")
    return moment
