"""Acting on many jobs at once: looked at first, then done by jobs of the platform itself.

::

    seen = bulk.preview("retry", query="state:failed kind:mail.send", by=by)
    made = bulk.start("retry", query="state:failed kind:mail.send", token=seen.token, by=by,
                      reason="the provider is back", care=Care(per_minute=600, canary=5))
    bulk.abort(made.id, by=by, reason="it is not")

The query, the moment until which jobs count as created, and the scope of whoever starts it are
frozen. Each job is acted on once, in the order of creation, and keeps its outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.core import signing

from jobs import registry
from jobs.engine import intake, sql
from jobs.errors import Denied, InvalidOption, NotAllowed, UnknownTarget
from jobs.ids import uuid7
from jobs.limits import Unique
from jobs.models import Bulk, BulkItem
from jobs.operate import acts, bulkrun, bulkscan, targets
from jobs.operate.bulkjobs import RunBulk
from jobs.operate.bulkplans import (
    ACTIONS,
    IDS_LIMIT,
    Care,
    action_of,
    checked_care,
    checked_options,
    obstacle,
    whole,
)
from jobs.operate.bulkscan import Found, Group, Seen, Selection
from jobs.operate.explain import explain
from jobs.operate.phrases import Phrase, plain, say
from jobs.operate.query import parse
from jobs.operate.targets import EVERYBODYS, Place
from jobs.principals import By, Principal, Scope, principal

__all__ = ["ACTIONS", "IDS_LIMIT", "Care", "Preview", "abort", "every", "find", "items",
           "preview", "proceed", "progress", "start"]  # fmt: skip

LOOK_LIMIT = 100_000
"""Jobs that a preview counts, if there is the time; of more it says so."""
TOKEN_LIFE = timedelta(minutes=15)
_SALT = "jobs.bulk.confirm"
_QUERY_LIMIT = 2000


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
    """Where counting all took too long, among so many of the newest jobs these are; else None."""
    token: str = field(repr=False)
    """Confirms this very operation, for a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a bulk operation is."""

    bulk: Bulk
    waiting: int
    rate: float
    """Items decided per second, over the last minute."""
    eta: float | None
    """Seconds until the end at this rate; None where that cannot be told."""
    held: str = ""
    """Why it does not go on, in words: its job was cancelled, or may not run; empty: it goes on."""
    held_told: str = ""
    """The same in the language of whoever asks."""


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
    who = _allowed(action, by, "bulk.preview")
    kept = _checked_options(action, options, who)
    now = _now()
    kinds, skipped = Counter[str](), Counter[str]()
    if _given(ids, query):
        found = bulkscan.by_ids(list(ids or ()), who.scope, ACTIONS[action].on_letters)
        seen = Seen([Group(f.state, f.kind, f.letter is not None, 1, (f,)) for f in found])
    else:
        seen = _selection(action, query, now, who).look(LOOK_LIMIT)
    able = list[Found]()
    for group in seen.groups:
        if why := _obstacle(action, group.state, group.kind, group.has_letter):
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
        token=_token(action, kept, ids, query, now, who),
    )


def _obstacle(action: str, state: str, kind: str, has_letter: bool) -> str:
    handler = registry.find(kind)
    return obstacle(
        action, state, kind, 1 if has_letter else None, handler is None or handler.replayable
    )


# ---- starting


def start(
    action: str,
    *,
    ids: Sequence[Any] | None = None,
    query: str | None = None,
    by: By,
    reason: str,
    token: str | None = None,
    care: Care = Care(),  # noqa: B008 - frozen
    **options: Any,
) -> Bulk:
    """The operation, which jobs of the platform carry out from now on.

    A person who gives a query shows the token of its preview, whose bounds then hold. Ids that do
    not exist within the scope raise UnknownJob or UnknownTarget, and nothing is done.
    """
    who = _allowed(action, by, "bulk.start")
    kept = _checked_options(action, options, who)
    is_ids = _given(ids, query)
    before = None
    if token is not None:
        before = _confirmed(token, action, kept, ids, query, _now(), who)
    elif isinstance(by, Principal) and not is_ids:
        raise InvalidOption("token", "is missing: look at a preview first, and show its token")
    if is_ids:
        try:
            bulkscan.by_ids(list(ids or ()), who.scope, ACTIONS[action].on_letters)
        except UnknownTarget as error:
            raise acts.deny(error, by, "bulk.start", kind="bulk") from None
    with acts.on(
        "bulk.start", kind="bulk", id=None, permission="run_bulk", by=by, reason=reason,
        needs_reason=True, place=Place(),
    ) as act:  # fmt: skip
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
    """The same, for whoever has asked and written down already."""
    kept, careful = _checked_options(action, options, who), checked_care(action, care)
    is_ids, now = _given(ids, query), _now()
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
        bulk.query = _selection(action, query, bulk.before, who).query
    bulk.save(using=sql.alias(), force_insert=True)
    bulkrun.add(bulk.id, [(f.id, f.letter, f.created_at) for f in found])
    _carry(bulk.id)
    return bulk


def proceed(bulk_id: UUID, *, by: By, reason: str) -> Bulk:
    """An operation whose job was cancelled or has failed is carried on."""
    with acts.on(
        "bulk.proceed", kind="bulk", id=bulk_id, permission="run_bulk", by=by, reason=reason,
        needs_reason=True, place=_place(bulk_id, by),
    ) as act:  # fmt: skip
        bulk = find(bulk_id, by=by)
        if not act.principal.may(permission := action_of(bulk.action).permission):
            raise Denied(permission)
        if bulk.is_over:
            raise NotAllowed("proceed", bulk_id, bulk.state, ["gathering", "canary", "running"])
        _carry(bulk_id)
    return bulk


def abort(bulk_id: UUID, *, by: By, reason: str) -> Bulk:
    """Nothing more is done; what is done stays. Raises NotAllowed where it is over."""
    with acts.on(
        "bulk.abort", kind="bulk", id=bulk_id, permission="run_bulk", by=by, reason=reason,
        needs_reason=True, place=_place(bulk_id, by),
    ) as act:  # fmt: skip
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


# ---- seeing


def find(bulk_id: UUID, *, by: By) -> Bulk:
    """The operation; raises UnknownTarget where there is none that the caller may see."""
    if not isinstance(bulk_id, UUID):
        raise targets.unknown("bulk", bulk_id)
    found = Bulk.objects.using(sql.alias()).filter(id=bulk_id).first()
    if found is None or not _sees(principal(by).scope, found):
        raise targets.unknown("bulk", bulk_id)
    return found


def every(*, by: By, limit: int = 100, before: UUID | None = None) -> list[Bulk]:
    """The newest operations that the caller may see."""
    whole("limit", limit, 1, IDS_LIMIT)
    scope = principal(by).scope
    found = Bulk.objects.using(sql.alias()).order_by("-created_at", "-id")
    for name, mine in bulkscan.as_json(scope).items():  # as _sees
        found = found.filter(**{f"scope__{name}__contained_by": mine})
    if before is not None:
        last = find(before, by=by)
        found = found.filter(created_at__lte=last.created_at).exclude(
            created_at=last.created_at, id__gte=last.id
        )
    return list(found[:limit])


def items(
    bulk_id: UUID, *, by: By, state: str | None = None, after: int = 0, limit: int = 100
) -> list[BulkItem]:
    """Items by their number, of this outcome only where one is given."""
    whole("limit", limit, 1, IDS_LIMIT)
    bulk = find(bulk_id, by=by)
    found = BulkItem.objects.using(sql.alias()).filter(bulk=bulk, id__gt=after).order_by("id")
    if state is not None:
        if state not in ("waiting", "done", "skipped", "failed"):
            raise InvalidOption("state", f"{state!r} is none of waiting, done, skipped, failed")
        found = found.filter(state=state)
    return list(found[:limit])


_FIRST = " UNION ALL ".join(
    "(SELECT * FROM jobs_bulkitem "  # noqa: S608 - constants
    f"WHERE bulk_id = %s AND state = '{state}' ORDER BY id LIMIT %s)"
    for state in ("failed", "skipped", "done")
)


def first_items(bulk: Bulk, limit: int) -> list[BulkItem]:
    """Of an operation that was found, so many of each outcome, those first that went wrong."""
    return list(BulkItem.objects.using(sql.alias()).raw(_FIRST, [bulk.pk, limit] * 3))


def progress(bulk_id: UUID | Bulk, *, by: By) -> Progress:
    """How far it is, how fast, and how long it will take; also of one that was just found."""
    bulk = bulk_id if isinstance(bulk_id, Bulk) else find(bulk_id, by=by)
    [(seconds,)] = sql.rows(
        "SELECT extract(epoch FROM coalesce(%s, jobs_clock()) "
        "- coalesce(%s, jobs_clock()))::float8",
        [bulk.finished_at, bulk.started_at],
    )
    rate = bulk.decided / seconds if seconds > 0 else 0.0
    if bulk.per_minute is not None:
        rate = min(rate, bulk.per_minute / 60)
    waiting = bulk.total - bulk.decided
    known = rate > 0 and bulk.state in ("running", "canary")
    held = _held(bulk)
    eta = waiting / rate if known else None
    return Progress(bulk, waiting, rate, eta, held.english, held.told)


_HARMLESS = frozenset({"not_due", "queued", "running", "turn", "ready", "dispatch"})


def _held(bulk: Bulk) -> Phrase:
    if bulk.is_over:
        return plain("")
    job = sql.rows(
        "SELECT id FROM jobs_job WHERE kind = 'jobs.bulk' AND tenant = '' AND unique_key = %s "
        "AND state IN ('blocked', 'pending', 'queued', 'running')",
        [str(bulk.id)],
    )
    if not job:
        return say("its job was cancelled or has failed: carry it on, or abort it")
    found = [r for r in explain(job[0][0]).reasons if r.code not in _HARMLESS]
    return Phrase(found[0].text, found[0].told) if found else plain("")


# ---- small parts


def _allowed(action: str, by: By, what: str) -> Principal:
    who = principal(by)
    for permission in ("run_bulk", action_of(action).permission):
        if not who.may(permission):
            raise acts.deny(Denied(permission), by, what, kind="bulk")
    return who


def _checked_options(action: str, options: dict[str, Any], who: Principal) -> dict[str, Any]:
    """The options as they are kept; jobs are moved to no queue outside the scope."""
    kept = checked_options(action, options)
    if not who.scope.covers(queue=kept.get("queue")):
        raise InvalidOption("queue", f"there is no queue {kept['queue']!r}")
    return kept


def _now() -> datetime:
    [(now,)] = sql.rows("SELECT jobs_clock()")
    return cast(datetime, now)


def _given(ids: Sequence[Any] | None, query: str | None) -> bool:
    """Whether ids are given, and not a query; raises InvalidOption where it is not one of both."""
    if (ids is None) == (query is None):
        raise InvalidOption("ids", "give either ids or a query")
    return ids is not None


def _selection(action: str, query: str | None, before: datetime, who: Principal) -> Selection:
    if not isinstance(query, str) or len(query) > _QUERY_LIMIT:
        raise InvalidOption("query", f"must be text of at most {_QUERY_LIMIT} characters")
    asked = parse(query)
    if not asked.terms:
        raise InvalidOption("query", "is empty: say which jobs")
    for permission in sorted(asked.permissions):
        if not who.may(permission):
            raise Denied(permission)
    # Frozen, so that "two hours ago" is the same moment whenever a portion is looked for.
    return Selection(str(asked.frozen(before)), before, who.scope, ACTIONS[action].on_letters)


def _sees(scope: Scope, bulk: Bulk) -> bool:
    """Whether all that the operation may touch lies within the scope."""
    frozen = bulkscan.from_json(bulk.scope)
    return all(
        mine is None or (its is not None and its <= mine)
        for mine, its in ((scope.tenants, frozen.tenants), (scope.queues, frozen.queues))
    )


def _token(
    action: str, options: dict[str, Any], ids: Sequence[Any] | None, query: str | None,
    before: datetime, who: Principal,
) -> str:  # fmt: skip
    content = _subject(action, options, ids, query, who)
    return signing.dumps(
        {"of": content, "before": before.isoformat(),
         "until": (before + TOKEN_LIFE).isoformat()}, salt=_SALT, compress=True,
    )  # fmt: skip


def _confirmed(
    token: str, action: str, options: dict[str, Any], ids: Sequence[Any] | None,
    query: str | None, now: datetime, who: Principal,
) -> datetime:  # fmt: skip
    """The bound that was looked at; raises InvalidOption where it is another operation's token."""
    try:
        data = signing.loads(token, salt=_SALT)
    except signing.BadSignature:
        raise InvalidOption("token", "is none that a preview gave") from None
    if data["of"] != _subject(action, options, ids, query, who):
        raise InvalidOption("token", "confirms another operation: look at a preview of this one")
    if now > datetime.fromisoformat(data["until"]):
        raise InvalidOption("token", "is too old: look at a preview again")
    return datetime.fromisoformat(data["before"])


def _subject(
    action: str, options: dict[str, Any], ids: Sequence[Any] | None, query: str | None,
    who: Principal,
) -> list[Any]:  # fmt: skip
    wanted = sorted({str(one) for one in ids}) if ids is not None else None
    return [action, options, wanted, query, who.name, who.via, bulkscan.as_json(who.scope)]
