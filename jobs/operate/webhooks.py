"""What people do with webhooks: make, change, pause, resume, try out, send again, remove.

Each is an act: allowed, within scope, and one row of the audit. A secret is shown once, by the
call that makes it, and by nothing afterwards; the audit knows of a URL only where it leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import Field

from jobs import conf, events, http, webhooks
from jobs.backoff import Duration, seconds
from jobs.engine import resuming, sql
from jobs.engine import webhooks as engine
from jobs.errors import Denied, InvalidOption, NotAllowed, UnknownTarget
from jobs.events import Event
from jobs.ids import uuid7
from jobs.models import Webhook, WebhookDelivery
from jobs.names import label_problem
from jobs.operate.acts import Act
from jobs.operate.permissions import MANAGE_WEBHOOK
from jobs.operate.targets import DELIVERY, EVERYBODYS, WEBHOOK, Place
from jobs.operate.verbs import acting, verb
from jobs.principals import By, Principal, principal

OVERLAP = timedelta(hours=24)
"""How long an old secret signs beside the new one."""
OVERLAP_LIMIT = timedelta(days=30)
SECRET_LIMIT = 3
"""Secrets that sign at the same time."""
LIMIT = 1000
PING = "jobs.webhook.ping"
EVERY_TENANT = "*"
"""Given in place of a tenant: the events of all tenants, and those of administrators."""
Url = Annotated[str, Field(min_length=1, max_length=2000)]
Topics = Annotated[
    Sequence[Annotated[str, Field(min_length=1, max_length=events.KEY_LIMIT)]],
    Field(max_length=events.PATTERN_LIMIT),
]


@dataclass(frozen=True, slots=True)
class Made:
    """A webhook's id, and its new secret, which is shown this once."""

    id: UUID
    secret: str = field(repr=False)


@verb("webhook.create", on=WEBHOOK, permission=MANAGE_WEBHOOK, group="administrator", new=True)
def create(
    url: Url,
    *,
    tenant: Annotated[
        str | None, Field(max_length=120, description="whose events; * for those of all tenants")
    ] = None,
    by: By,
    reason: str,
    topics: Topics | None = None,
    name: Annotated[str, Field(max_length=200)] = "",
) -> Made:
    """Create a webhook for the events of a tenant; its secret is shown once.

    A caller who sees only one tenant can leave it out. ``EVERY_TENANT`` stands for all of them, and
    for the events of administrators; nothing else does.
    """
    own = principal(by).scope.tenants
    if tenant is None and own is not None and len(own) == 1:
        tenant = next(iter(own))
    made = Made(uuid7(), webhooks.new_secret())
    with acting(create, made.id, by=by, reason=reason, place=_place_of(tenant)) as act:
        if not conf.settings().WEBHOOKS:
            raise InvalidOption("url", "webhooks are off: set JOBS['WEBHOOKS'] = True")
        tenant = _checked_tenant(tenant)
        if not tenant and not principal(by).is_staff:
            raise InvalidOption("tenant", "webhooks of all tenants are for staff: name a tenant")
        _check_room(tenant)
        globs = events.patterns(topics)
        row = Webhook.objects.using(sql.alias()).create(
            id=made.id,
            name=_checked_name(name),
            tenant=tenant,
            url=_checked_url(url),
            topics=list(globs),
            secrets=[{"secret": made.secret, "until": None}],
            created_by=act.name,
        )
        act.changed({}, _shown(row))
    return made


_LOCK = "SELECT 1 FROM pg_advisory_xact_lock(hashtextextended(%s, %s))"
_SEED = 0x77656268
_COUNT = "SELECT count(*) FROM jobs_webhook WHERE tenant = %s"


def _check_room(tenant: str) -> None:
    """Raise InvalidOption where the tenant has as many webhooks as it may have.

    Every event is written once for each of them, by the one relay of all tenants.
    """
    sql.rows(_LOCK, [tenant, _SEED])  # of two at a time, the second one counts the first
    most = conf.settings().WEBHOOK_LIMIT
    if sql.rows(_COUNT, [tenant])[0][0] >= most:
        whose = f"tenant {tenant!r}" if tenant else "the platform"
        raise InvalidOption("tenant", f"{whose} may have no more than {most} webhooks")


@verb("webhook.edit", on=WEBHOOK, permission=MANAGE_WEBHOOK, group="administrator")
def edit(
    webhook: UUID,
    *,
    by: By,
    reason: str,
    url: Url | None = None,
    topics: Topics | None = None,
    name: Annotated[str | None, Field(max_length=200)] = None,
) -> Webhook:
    """Change a webhook; deliveries that wait go to the new URL."""
    with _on(webhook, edit, by, reason) as (act, found):
        before, changes = _shown(found), dict[str, Any]()
        if url is not None:
            changes["url"] = _checked_url(url)
        if name is not None:
            changes["name"] = _checked_name(name)
        if topics is not None:
            globs = events.patterns(topics)
            changes["topics"] = list(globs)
        if not changes:
            raise InvalidOption("url", "give a url, topics or a name to change")
        for column, value in changes.items():
            setattr(found, column, value)
        found.save(update_fields=list(changes))
        act.changed(before, _shown(found))
    return found


@verb("webhook.pause", on=WEBHOOK, permission=MANAGE_WEBHOOK, group="administrator")
def pause(webhook: UUID, *, by: By, reason: str) -> Webhook:
    """Pause a webhook until it is resumed; deliveries wait."""
    with _on(webhook, pause, by, reason) as (act, found):
        if found.state != "active":
            raise NotAllowed("pause", webhook, found.state, ["active"])
        found.state, found.stopped_by, found.stopped_reason = "paused", act.name, act.reason
        found.stopped_at = _now()
        found.save(update_fields=["state", "stopped_by", "stopped_reason", "stopped_at"])
        act.changed({"state": "active"}, {"state": "paused"})
    return found


@verb("webhook.resume", on=WEBHOOK, permission=MANAGE_WEBHOOK, group="administrator")
def resume(webhook: UUID, *, by: By, reason: str, drop: bool = False) -> int:
    """Resume a paused or disabled webhook.

    Returns how many deliveries had waited. They are sent now, oldest first, or with ``drop`` never.
    """
    with _on(webhook, resume, by, reason) as (act, found):
        if found.state == "active":
            raise NotAllowed("resume", webhook, found.state, ["paused", "disabled"])
        act.changed({"state": found.state}, {"state": "active"})
        found.state, found.stopped_by, found.stopped_reason = "active", "", ""
        found.stopped_at, found.failures, found.failing_since = None, 0, None
        found.save(
            update_fields=[
                "state", "stopped_by", "stopped_reason", "stopped_at", "failures", "failing_since"
            ]
        )  # fmt: skip
        waited = resuming.drop(webhook) if drop else resuming.release(webhook, found.tenant)
        act.note(waited=waited, dropped=bool(drop))
    return waited


@verb("webhook.rotate_secret", on=WEBHOOK, permission=MANAGE_WEBHOOK, group="administrator")
def rotate_secret(
    webhook: UUID,
    *,
    by: By,
    reason: str,
    overlap: Annotated[
        Duration, Field(le=OVERLAP_LIMIT, description="the old secret signs for this long")
    ] = OVERLAP,
) -> Made:
    """Give a webhook a new secret; the old one signs next to it for a while.

    This lasts for ``overlap``, so that no receiver misses anything.
    """
    made = Made(webhook, webhooks.new_secret())
    with _on(webhook, rotate_secret, by, reason) as (act, found):
        if not 0 <= (most := seconds(overlap)) <= OVERLAP_LIMIT.total_seconds():
            raise InvalidOption("overlap", f"must lie between 0 and {OVERLAP_LIMIT.days} days")
        act.note(overlap_seconds=most)
        now = _now()
        until = (now + timedelta(seconds=most)).isoformat()
        kept = [
            {**one, "until": min(until, one["until"] or until)}
            for one in found.secrets
            if most and (not one["until"] or one["until"] > now.isoformat())
        ]
        found.secrets = [{"secret": made.secret, "until": None}, *kept[: SECRET_LIMIT - 1]]
        found.save(update_fields=["secrets"])
    return made


_LOCK_ALL = """
SELECT 1 FROM jobs_webhookdelivery WHERE webhook_id = %s ORDER BY job_id FOR UPDATE
"""


@verb("webhook.delete", on=WEBHOOK, permission=MANAGE_WEBHOOK, group="administrator")
def delete(webhook: UUID, *, by: By, reason: str) -> None:
    """Delete a webhook with all its deliveries; what waits is not sent."""
    with _on(webhook, delete, by, reason) as (act, found):
        act.changed(_shown(found), {})
        # In the order in which jobs that end close them.
        sql.rows(_LOCK_ALL, [webhook])
        sql.run("DELETE FROM jobs_webhookdelivery WHERE webhook_id = %s", [webhook])
        found.delete()


@verb("webhook.ping", on=WEBHOOK, permission=MANAGE_WEBHOOK, group="administrator")
def ping(webhook: UUID, *, by: By, reason: str) -> UUID:
    """Send an empty delivery to a webhook, regardless of its topics.

    Returns its id.
    """
    with _on(webhook, ping, by, reason) as (act, found):
        if found.state != "active":
            raise NotAllowed("ping", webhook, found.state, ["active"])
        data = {"webhook": str(webhook), "by": act.name}
        event = Event(0, uuid7(), PING, "", found.tenant, "tenant", data, _now())
        [made] = engine.write(event, [(webhook, found.tenant, True)])
        act.note(delivery=str(made))
    return made


_UNFINISHED = """
SELECT 1 FROM jobs_job WHERE id = %s AND state IN ('blocked', 'pending', 'queued', 'running')
"""


@verb("webhook.redeliver", on=DELIVERY, permission=MANAGE_WEBHOOK, group="administrator")
def redeliver(delivery: UUID, *, by: By, reason: str) -> UUID:
    """Send a delivery once more, with its old event id.

    Returns the id of the new job.
    """
    with acting(redeliver, delivery, by=by, reason=reason) as act:
        found = _locked_of(delivery, act.principal)
        if found.state != "active":
            raise NotAllowed("redeliver to", found.id, found.state, ["active"])
        row = WebhookDelivery.objects.using(sql.alias()).select_for_update().get(id=delivery)
        if row.state == "held" or (row.state == "waiting" and sql.rows(_UNFINISHED, [row.job_id])):
            raise NotAllowed("redeliver", delivery, row.state, ["delivered", "failed", "dropped"])
        row.state, row.job_id, row.closed_at = "waiting", uuid7(), None
        row.save(update_fields=["state", "job_id", "closed_at"])
        engine.send_later(row.job_id, row.id, found.id, found.tenant, row.key)
        act.note(webhook=str(found.id), job=str(row.job_id))
    return row.job_id


# ---- looking


def every(*, by: By) -> list[Webhook]:
    """The webhooks that the caller may see."""
    who = _viewer(by)
    found = Webhook.objects.using(sql.alias())
    if who.scope.queues is not None:
        return []
    if who.scope.tenants is not None:
        found = found.filter(tenant__in=sorted(who.scope.tenants))
    if not who.is_staff:
        found = found.exclude(tenant="")
    return list(found[:LIMIT])


def find(webhook: UUID, *, by: By) -> Webhook:
    """One of them; raises UnknownTarget."""
    found = Webhook.objects.using(sql.alias()).filter(id=webhook).first()
    who = _viewer(by)
    if found is None or _is_hidden(found, who) or not who.scope.covers(found.tenant, ""):
        raise UnknownTarget("webhook", webhook)
    return found


def deliveries(webhook: UUID, *, by: By, limit: int = 100) -> list[WebhookDelivery]:
    """The webhook's newest deliveries."""
    if type(limit) is not int or not 1 <= limit <= LIMIT:
        raise InvalidOption("limit", f"must be a whole number from 1 to {LIMIT}, got {limit!r}")
    _viewer(by)
    rows = find(webhook, by=by).deliveries.using(sql.alias())
    return list(rows.order_by("-created_at", "-id")[:limit])


def _viewer(by: By) -> Principal:
    who = principal(by)
    if not who.may("view_webhook"):
        raise Denied("view_webhook")
    return who


# ---- acting


@contextmanager
def _on(
    webhook: UUID, function: Callable[..., Any], by: By, reason: str
) -> Iterator[tuple[Act, Webhook]]:
    """Open an act on the webhook, and lock it."""
    with acting(function, webhook, by=by, reason=reason) as act:
        locked = Webhook.objects.using(sql.alias()).select_for_update().filter(id=webhook).first()
        if locked is None or _is_hidden(locked, act.principal):
            raise UnknownTarget("webhook", webhook)
        yield act, locked


def _is_hidden(webhook: Webhook, who: Principal) -> bool:
    """Whether it is one of all tenants, which gets the events for administrators."""
    return not webhook.tenant and not who.is_staff


def _locked_of(delivery: UUID, who: Principal) -> Webhook:
    """Return the webhook of the delivery, locked."""
    rows = Webhook.objects.using(sql.alias()).filter(deliveries__id=delivery)
    found = rows.select_for_update(of=("self",)).first()
    if found is None or _is_hidden(found, who):
        raise UnknownTarget("delivery", delivery)
    return found


def _checked_tenant(tenant: object) -> str:
    """Return the tenant as the row has it; empty for all of them."""
    if tenant == EVERY_TENANT:
        return ""
    if tenant in (None, ""):
        raise InvalidOption("tenant", "is missing: name one, or give * for the events of all")
    if problem := label_problem(tenant):
        raise InvalidOption("tenant", problem)
    return str(tenant)


def _place_of(tenant: object) -> Place:
    """To whom a webhook of this tenant belongs: it gets events of jobs of all queues."""
    if tenant in (None, ""):
        return Place()
    is_one = tenant != EVERY_TENANT and isinstance(tenant, str) and not label_problem(tenant)
    return Place(str(tenant), "") if is_one else EVERYBODYS


def _shown(row: Webhook) -> dict[str, Any]:
    """What the audit shows; a path or a query may be a secret of the receiver's."""
    parts = urlsplit(row.url)
    return {
        "name": row.name,
        "tenant": row.tenant,
        "host": f"{parts.scheme}://{parts.netloc}",
        "topics": row.topics,
        "state": row.state,
    }


def _now() -> Any:
    [(now,)] = sql.rows("SELECT jobs_clock()")
    return now


def _checked_name(name: object) -> str:
    if name != "" and (problem := label_problem(name)):
        raise InvalidOption("name", problem)
    return str(name)


def _checked_url(url: object) -> str:
    if not isinstance(url, str) or len(url) > 2000:
        raise InvalidOption("url", "must be text of at most 2000 characters")
    try:
        http.check(url)
    except http.HttpError as error:
        raise InvalidOption("url", str(error)) from None
    return url
