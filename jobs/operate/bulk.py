"""Acting on many jobs at once: looked at first, then done by jobs of the platform itself.

::

    seen = bulk.preview("retry", query="state:failed kind:mail.send", by=by)
    made = bulk.start("retry", query="state:failed kind:mail.send", token=seen.token, by=by,
                      reason="the provider is back", care=Care(per_minute=600, canary=5))
    bulk.abort(made.id, by=by, reason="it is not")

The query, the moment until which jobs count as created, and the scope of the person who starts it
are frozen. Each job is acted on once, in the order of creation, and keeps its outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from jobs.engine import intake, sql
from jobs.errors import Denied, InvalidOption, NotAllowed, UnknownTarget
from jobs.ids import uuid7
from jobs.limits import Unique
from jobs.models import Bulk
from jobs.operate import bulkasked as asked
from jobs.operate import bulkrun, bulkscan
from jobs.operate.bulkjobs import RunBulk
from jobs.operate.bulkplans import ACTIONS, IDS_LIMIT, Care, action_of, checked_care, obstacle
from jobs.operate.bulkscan import Found, Group, Seen
from jobs.operate.bulkseen import Progress, every, find, first_items, items, progress
from jobs.operate.permissions import RUN_BULK
from jobs.operate.targets import BULK, EVERYBODYS, Place
from jobs.operate.verbs import acting, deny, verb
from jobs.principals import By, Principal

__all__ = ["ACTIONS", "IDS_LIMIT", "Care", "Preview", "Progress", "abort", "every", "find",
           "first_items", "items", "preview", "proceed", "progress", "start"]  # fmt: skip

ActionName = Annotated[str, Field(min_length=1, max_length=60)]
Ids = Annotated[Sequence[UUID | int] | None, Field(min_length=1, max_length=IDS_LIMIT)]
Query = Annotated[str | None, Field(max_length=1000)]
LOOK_LIMIT = 100_000
"""Jobs that a preview counts, if there is the time; of more it says so."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a bulk operation would do now."""

    action: str
    eligible: int
    skipped: dict[str, int]
    """Jobs that would be passed by, by the reason."""
    kinds: dict[str, int]
    """Eligible jobs by their kind."""
    sample: list[Found]
    before: datetime
    is_cut: bool
    """Whether there may be more than were counted."""
    looked: int | None
    """Where counting all took too long, among this many of the newest jobs these are; else None."""
    token: str = field(repr=False)
    """Confirms this very operation, for a quarter of an hour."""


# ---- looking first


def preview(
    action: str,
    *,
    ids: Sequence[Any] | None = None,
    query: str | None = None,
    by: By,
    **options: Any,
) -> Preview:
    """What ``start`` would do; nothing is done. Raises as ``start`` does."""
    who = asked.allowed(action, by)
    kept = asked.options_of(action, options, who)
    now = asked.now()
    kinds, skipped = Counter[str](), Counter[str]()
    if asked.are_ids(ids, query):
        found = bulkscan.by_ids(list(ids or ()), who.scope, ACTIONS[action].on_letters)
        seen = Seen(
            [Group(f.state, f.kind, f.letter is not None, f.is_replayed, 1, (f,)) for f in found]
        )
    else:
        seen = asked.selection(action, query, now, who).look(LOOK_LIMIT)
    able = list[Found]()
    for group in seen.groups:
        why = obstacle(action, group.state, group.kind, group.has_letter, group.is_replayed)
        if why:
            skipped[why] += group.count
        else:
            kinds[group.kind] += group.count
            able += group.first
    return Preview(
        action=action,
        eligible=sum(kinds.values()),
        skipped=dict(skipped.most_common()),
        kinds=dict(kinds.most_common()),
        sample=sorted(able, key=lambda f: (f.created_at, f.id))[: bulkscan.SAMPLE],
        before=now,
        is_cut=seen.is_cut,
        looked=seen.looked,
        token=asked.token_of(action, kept, ids, query, now, who),
    )


# ---- starting


@verb("bulk.start", on=BULK, permission=RUN_BULK, new=True)
def start(
    action: ActionName,
    *,
    ids: Ids = None,
    query: Query = None,
    by: By,
    reason: str,
    token: Annotated[str | None, Field(max_length=4000)] = None,
    care: Care = Care(),  # noqa: B008 - frozen
    **options: Any,
) -> Bulk:
    """Start a bulk operation, which jobs of the platform carry out.

    A person who gives a query shows the token of its preview, whose bounds then hold. Ids that do
    not exist within the scope raise UnknownJob or UnknownTarget, and nothing is done.
    """
    who = asked.allowed(action, by, start)
    kept = asked.options_of(action, options, who)
    is_ids = asked.are_ids(ids, query)
    before = None
    if token is not None:
        before = asked.confirmed(token, action, kept, ids, query, asked.now(), who)
    elif isinstance(by, Principal) and not is_ids:
        raise InvalidOption("token", "is missing: look at a preview first, and show its token")
    if is_ids:
        try:
            bulkscan.by_ids(list(ids or ()), who.scope, ACTIONS[action].on_letters)
        except UnknownTarget as error:
            raise deny(start, error, by) from None
    with acting(start, by=by, reason=reason, place=Place()) as act:
        made = carry_out(
            action, ids=ids, query=query, who=act.principal, reason=act.reason, before=before,
            care=care, **kept,
        )  # fmt: skip
        act.concerns(made.id)
        act.count = made.total
        act.note(bulk_action=action, query=made.query, options=kept)
    return find(made.id, by=by)


def carry_out(
    action: str,
    *,
    ids: Sequence[Any] | None = None,
    query: str | None = None,
    who: Principal,
    reason: str,
    before: datetime | None = None,
    care: Care = Care(),  # noqa: B008 - frozen
    **options: Any,
) -> Bulk:
    """Start without permission check and audit; for callers that have done both."""
    kept, careful = asked.options_of(action, options, who), checked_care(action, care)
    is_ids, now = asked.are_ids(ids, query), asked.now()
    bulk = Bulk(
        id=uuid7(),
        action=action,
        options=kept,
        query="",
        before=before or now,
        by=who.name,
        via=who.via,
        reason=reason,
        scope=bulkscan.as_json(who.scope),
        state="gathering" if not is_ids else "canary" if careful.canary else "running",
        per_minute=careful.per_minute,
        canary=careful.canary,
        stop_at=careful.stop_at,
    )
    found = []
    if is_ids:
        found = bulkscan.by_ids(list(ids or ()), who.scope, ACTIONS[action].on_letters)
        bulk.total, bulk.started_at = len(found), now
    else:
        bulk.query = asked.selection(action, query, bulk.before, who).query
    bulk.save(using=sql.alias(), force_insert=True)
    bulkrun.add(bulk.id, [(f.id, f.letter, f.created_at) for f in found])
    _carry(bulk.id)
    return bulk


@verb("bulk.proceed", on=BULK, permission=RUN_BULK)
def proceed(bulk_id: UUID, *, by: By, reason: str) -> Bulk:
    """Carry on a bulk operation whose job was cancelled or has failed."""
    with acting(proceed, bulk_id, by=by, reason=reason, place=_place(bulk_id, by)) as act:
        bulk = find(bulk_id, by=by)
        if not act.principal.may(permission := action_of(bulk.action).permission):
            raise Denied(permission)
        if bulk.is_over:
            raise NotAllowed("proceed", bulk_id, bulk.state, ["gathering", "canary", "running"])
        _carry(bulk_id)
    return bulk


@verb("bulk.abort", on=BULK, permission=RUN_BULK)
def abort(bulk_id: UUID, *, by: By, reason: str) -> Bulk:
    """Abort a bulk operation; what is done stays.

    Raises NotAllowed where it is over.
    """
    with acting(abort, bulk_id, by=by, reason=reason, place=_place(bulk_id, by)) as act:
        bulk = find(bulk_id, by=by)
        aborted = sql.rows(
            "UPDATE jobs_bulk SET state = 'aborted', note = %s, finished_at = jobs_clock() "
            "WHERE id = %s AND state NOT IN ('aborted', 'done', 'stopped') "
            "RETURNING done, skipped, failed",
            [f"{act.name}: {act.reason}", bulk_id],
        )
        if not aborted:
            state = find(bulk_id, by=by).state
            raise NotAllowed("abort", bulk_id, state, ["gathering", "canary", "running"])
        done, skipped, failed = aborted[0]
        act.count = done
        act.note(bulk_action=bulk.action, done=done, skipped=skipped, failed=failed)
    return find(bulk_id, by=by)


def _place(bulk_id: UUID, by: By) -> Place:
    """Whoever may not see the operation meets the place of those who see everything."""
    try:
        find(bulk_id, by=by)
    except UnknownTarget:
        return EVERYBODYS
    return Place()


def _carry(bulk_id: UUID) -> None:
    intake.enqueue(RunBulk(bulk_id=bulk_id), priority=50, unique=Unique(str(bulk_id)))
