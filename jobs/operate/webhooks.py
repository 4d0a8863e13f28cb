"""What people do with webhooks: make, change, pause, resume, try out, send again, remove.

Every function checks first and writes then, in one transaction. A secret is shown once, by the
call that makes it, and by nothing afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction

from jobs import conf, events, http, webhooks
from jobs.backoff import Duration, seconds
from jobs.engine import resuming, sql
from jobs.engine import webhooks as engine
from jobs.errors import InvalidOption, JobsError, NotAllowed
from jobs.events import Event
from jobs.ids import uuid7
from jobs.models import Webhook, WebhookDelivery
from jobs.names import label_problem
from jobs.operate.words import checked_by, checked_reason
from jobs.principals import By, principal

log = logging.getLogger("jobs.webhooks")

OVERLAP = timedelta(hours=24)
"""How long an old secret signs beside the new one."""
OVERLAP_LIMIT = timedelta(days=30)
SECRET_LIMIT = 3
"""Secrets that sign at the same time."""
LIMIT = 1000
PING = "jobs.webhook.ping"


class UnknownWebhook(JobsError):
    """There is no such webhook or delivery, or none that the caller may see."""

    def __init__(self, kind: str, target: object) -> None:
        self.target = target
        super().__init__(f"there is no {kind} {target}")


@dataclass(frozen=True, slots=True)
class Made:
    """A webhook's id, and its new secret, which is shown this once."""

    id: UUID
    secret: str = field(repr=False)


def create(
    url: str,
    *,
    tenant: str,
    by: By,
    reason: str,
    topics: str | Iterable[str] | None = None,
    name: str = "",
) -> Made:
    """The webhook is told of its tenant's events from now on; "" of everybody's and the staff's."""
    if not conf.settings().WEBHOOKS:
        raise InvalidOption("url", "webhooks are off: set JOBS['WEBHOOKS'] = True")
    if tenant != "" and (problem := label_problem(tenant)):
        raise InvalidOption("tenant", problem)
    name, url, globs = _checked_name(name), _checked_url(url), events.patterns(topics)
    made = Made(uuid7(), webhooks.new_secret())
    with _acting("webhook.create", made.id, tenant, by, reason) as who:
        Webhook.objects.using(sql.alias()).create(
            id=made.id,
            name=name,
            tenant=tenant,
            url=url,
            topics=list(globs),
            expression=_expression(globs),
            secrets=[{"secret": made.secret, "until": None}],
            created_by=who,
        )
    return made


def edit(
    webhook: UUID,
    *,
    by: By,
    reason: str,
    url: str | None = None,
    topics: str | Iterable[str] | None = None,
    name: str | None = None,
) -> Webhook:
    """What is given is changed; deliveries that wait go to the new URL."""
    changes: dict[str, Any] = {}
    if url is not None:
        changes["url"] = _checked_url(url)
    if name is not None:
        changes["name"] = _checked_name(name)
    if topics is not None:
        globs = events.patterns(topics)
        changes |= {"topics": list(globs), "expression": _expression(globs)}
    if not changes:
        raise InvalidOption("url", "give a url, topics or a name to change")
    with _on(webhook, "webhook.edit", by, reason) as (found, _):
        for column, value in changes.items():
            setattr(found, column, value)
        found.save(update_fields=list(changes))
    return found


def pause(webhook: UUID, *, by: By, reason: str) -> Webhook:
    """Nothing is sent until somebody resumes it; deliveries wait."""
    with _on(webhook, "webhook.pause", by, reason) as (found, who):
        if found.state != "active":
            raise NotAllowed("pause", webhook, found.state, ["active"])
        found.state, found.stopped_by, found.stopped_reason = "paused", who, reason.strip()
        found.stopped_at = _now()
        found.save(update_fields=["state", "stopped_by", "stopped_reason", "stopped_at"])
    return found


def resume(webhook: UUID, *, by: By, reason: str, drop: bool = False) -> int:
    """The webhook, paused or disabled, goes on; answers how many deliveries had waited.

    They are sent now, oldest first, or with ``drop`` never.
    """
    with _on(webhook, "webhook.resume", by, reason) as (found, _):
        if found.state == "active":
            raise NotAllowed("resume", webhook, found.state, ["paused", "disabled"])
        found.state, found.stopped_by, found.stopped_reason = "active", "", ""
        found.stopped_at, found.failures, found.failing_since = None, 0, None
        found.save(
            update_fields=[
                "state", "stopped_by", "stopped_reason", "stopped_at", "failures", "failing_since"
            ]
        )  # fmt: skip
        return resuming.drop(webhook) if drop else resuming.release(webhook, found.tenant)


def rotate_secret(webhook: UUID, *, by: By, reason: str, overlap: Duration = OVERLAP) -> Made:
    """There is a new secret; for ``overlap`` the last one signs beside it, so that no receiver
    misses anything.
    """
    if not 0 <= (most := seconds(overlap)) <= OVERLAP_LIMIT.total_seconds():
        raise InvalidOption("overlap", f"must lie between 0 and {OVERLAP_LIMIT.days} days")
    made = Made(webhook, webhooks.new_secret())
    with _on(webhook, "webhook.rotate_secret", by, reason) as (found, _):
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


def delete(webhook: UUID, *, by: By, reason: str) -> None:
    """The webhook is gone with all its deliveries; what waits is not sent."""
    with _on(webhook, "webhook.delete", by, reason) as (found, _):
        sql.run("DELETE FROM jobs_webhookdelivery WHERE webhook_id = %s", [webhook])
        found.delete()


def ping(webhook: UUID, *, by: By, reason: str) -> UUID:
    """A delivery that says nothing is sent, whatever the topics; answers its id."""
    with _on(webhook, "webhook.ping", by, reason) as (found, who):
        if found.state != "active":
            raise NotAllowed("ping", webhook, found.state, ["active"])
        data = {"webhook": str(webhook), "by": who}
        event = Event(0, uuid7(), PING, "", found.tenant, "tenant", data, _now())
        made = engine.write(webhook, found.tenant, event)
    assert made is not None  # noqa: S101 - the event's id is new
    return made


_UNFINISHED = """
SELECT 1 FROM jobs_job WHERE id = %s AND state IN ('blocked', 'pending', 'queued', 'running')
"""


def redeliver(delivery: UUID, *, by: By, reason: str) -> UUID:
    """The delivery is sent once more, with its old event id; answers the id of the new job."""
    row = WebhookDelivery.objects.using(sql.alias()).filter(id=delivery).first()
    if row is None:
        raise UnknownWebhook("delivery", delivery)
    with _on(row.webhook_id, "webhook.redeliver", by, reason) as (found, _):
        if found.state != "active":
            raise NotAllowed("redeliver to", found.id, found.state, ["active"])
        row = WebhookDelivery.objects.using(sql.alias()).select_for_update().get(id=delivery)
        if row.state == "held" or (row.state == "waiting" and sql.rows(_UNFINISHED, [row.job_id])):
            raise NotAllowed("redeliver", delivery, row.state, ["delivered", "failed", "dropped"])
        row.state, row.job_id, row.closed_at = "waiting", uuid7(), None
        row.save(update_fields=["state", "job_id", "closed_at"])
        engine.send_later(row.job_id, row.id, found.id, found.tenant, row.key)
    return row.job_id


# ---- looking


def every(*, by: By) -> list[Webhook]:
    """The webhooks that the caller may see."""
    who = principal(by)
    _require(who.may("view_webhook"), "view_webhook")
    found = Webhook.objects.using(sql.alias())
    if who.scope.tenants is not None:
        found = found.filter(tenant__in=sorted(who.scope.tenants))
    return list(found[:LIMIT])


def deliveries(webhook: UUID, *, by: By, limit: int = 100) -> list[WebhookDelivery]:
    """The webhook's newest deliveries."""
    if type(limit) is not int or not 1 <= limit <= LIMIT:
        raise InvalidOption("limit", f"must be a whole number from 1 to {LIMIT}, got {limit!r}")
    who = principal(by)
    _require(who.may("view_webhook"), "view_webhook")
    found = Webhook.objects.using(sql.alias()).filter(id=webhook).first()
    if found is None or not who.scope.covers(found.tenant):
        raise UnknownWebhook("webhook", webhook)
    rows = WebhookDelivery.objects.using(sql.alias()).filter(webhook_id=webhook)
    return list(rows.order_by("-created_at", "-id")[:limit])


# ---- acting


@contextmanager
def _acting(action: str, target: UUID, tenant: str, by: By, reason: str) -> Iterator[str]:
    """One transaction of somebody who may act on webhooks of the tenant; answers his name."""
    who = principal(by)
    name, reason = checked_by(who.name), checked_reason(reason)
    _require(who.may("manage_webhook"), "manage_webhook")
    if not who.scope.covers(tenant):
        raise UnknownWebhook("webhook", target)
    with transaction.atomic(using=sql.alias()):
        yield name
    log.info("%s of %s by %s: %s", action, target, name, reason)


@contextmanager
def _on(webhook: UUID, action: str, by: By, reason: str) -> Iterator[tuple[Webhook, str]]:
    """The webhook, locked, and the name of whoever acts on it."""
    found = Webhook.objects.using(sql.alias()).filter(id=webhook).first()
    if found is None:
        raise UnknownWebhook("webhook", webhook)
    with _acting(action, webhook, found.tenant, by, reason) as who:
        locked = Webhook.objects.using(sql.alias()).select_for_update().filter(id=webhook).first()
        if locked is None:
            raise UnknownWebhook("webhook", webhook)
        yield locked, who


def _require(is_allowed: bool, permission: str) -> None:
    if not is_allowed:
        raise PermissionDenied(f"permission {permission!r} is missing")


def _now() -> Any:
    [(now,)] = sql.rows("SELECT jobs_clock()")
    return now


def _expression(globs: tuple[str, ...]) -> str:
    return events.expression(globs) if globs else ""


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
