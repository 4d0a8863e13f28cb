"""What the API, the admin and other code call: accept a post, and ask whether a time would work."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

import jobs
from publisher import assets, channels, config, connectors, content, keys, metrics, states
from publisher.clock import now
from publisher.content import Content
from publisher.errors import Fault, Faults, Refused
from publisher.models import Account, Brand, Channel, Publication
from publisher.payloads import PAYLOADS

INVALID_CHANNEL = "fp_publisher_invalid_channel"
INVALID_JOB = "fp_publisher_invalid_job"
INVALID_PLAN = "fp_publisher_invalid_plan"
BLOCKED = "fp_publisher_preflight_blocked"
KEY_LIMIT = 191


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A publication, and whether this call has made it."""

    row: Publication
    is_new: bool


def channel_of(name: str) -> str:
    """Return the channel that a name means; raise Refused if there is none."""
    found = re.sub(r"[^a-z0-9_]", "", re.sub(r"[\s-]+", "_", name.strip()).lower())[:64]
    if found not in (known := channels.names()):
        words = f"is none of {', '.join(known)}"
        raise Refused(INVALID_CHANNEL, Fault("channel", words))
    return found


def check(
    channel: str, post: Content, *, with_media: bool = True, limit: int | None = None
) -> None:
    """Raise Refused with everything that the channel would not take."""
    if post.type == "ig_first_comment" and channel != Channel.META_INSTAGRAM:
        raise Refused(BLOCKED, Fault("type", "goes with meta_instagram only"))
    found = content.problems(post) + connectors.of(channel).within(limit).faults(post.filled())
    if post.ig_first_comment and (channel != Channel.META_INSTAGRAM or post.type != "publish"):
        found.append(Fault("ig_first_comment", "goes with posts on meta_instagram only"))
    found = [one for one in found if with_media or not one.field.startswith("media")]
    if found:
        raise Refused(BLOCKED, *(Fault(f"payload/{f.field}", f.message) for f in found))


def preview(channel: str, post: Content) -> dict[str, Any]:
    """Return the post as the channel would get it, without a call and without a row."""
    check(channel, post)
    shown = connectors.of(channel).preview(post.filled())
    return {"channel": channel, "type": post.type, **shown}


def review(
    channel: str,
    post: Content,
    account: Account | None = None,
    *,
    run_at: datetime | None = None,
    publish_until: datetime | None = None,
    key: str = "",
) -> Content:
    """Return the post with type and hash of its assets; raise Refused with everything wrong.

    Without an account nothing can be said of its assets.
    """
    found = Faults(INVALID_JOB, INVALID_PLAN, BLOCKED)
    found.within("", check_times, run_at, publish_until)
    if len(key) > KEY_LIMIT:
        fault = Fault("idempotency_key", f"has more than {KEY_LIMIT} characters", INVALID_JOB)
        found.found.append(fault)
    bound = None
    if account is not None:
        bound = found.within("", assets.bound, account.brand_id, post, channel)
    is_known = bound is not None or not post.assets
    limit = account.text_limit if account is not None else None
    found.within("", check, channel, bound or post, with_media=is_known, limit=limit)
    found.check()
    return bound or post


def enqueue(
    account: Account,
    post: Content,
    *,
    run_at: datetime | None = None,
    publish_until: datetime | None = None,
    idempotency_key: str = "",
) -> Enqueued:
    """Accept a post; a known key returns its publication unchanged.

    Without a key it gets one of its own, so that every call makes a new post. Raises Refused.
    """
    key = idempotency_key.strip()
    post = review(
        account.channel, post, account, run_at=run_at, publish_until=publish_until, key=key
    )
    return _enqueue(account, post, key or _own_key(post), run_at, publish_until)


def _own_key(post: Content) -> str:
    """Return the key of a post that was given none: a comment is written once below its post."""
    if post.type == "ig_first_comment":
        return keys.comment_key(post.media_id, post.text)
    return keys.fallback()


def schedule(
    account: Account, post: Content, run_at: datetime, publish_until: datetime | None = None
) -> Enqueued:
    """Accept a planned post: the same text on the same channel at the same second is one post.

    A cancelled one is revived. Raises Refused for a time in the past.
    """
    if run_at < now():
        raise Refused(INVALID_PLAN, Fault("run_at", "lies in the past"))
    post = review(account.channel, post, account, run_at=run_at, publish_until=publish_until)
    brand = account.brand.slug
    key = keys.key_of(
        brand, account.channel, run_at, keys.media_hash([one.mark for one in post.media]),
        keys.caption_hash(post.text, post.used),
    )  # fmt: skip
    with transaction.atomic():
        made = _enqueue(account, post, key, run_at, publish_until)
        row = made.row
        if not made.is_new and row.reason == Publication.Reason.CANCELLED and not row.remote_id:
            if not row.content:  # retention has trimmed it
                row.content = post.stored()
                row.save(update_fields=["content"])
            revive(row, by="publisher", reason="scheduled again", at=run_at, until=publish_until)
    return made


def cancel(row: Publication, *, by: Any, reason: str) -> None:
    """Cancel a waiting publication with its job, in the caller's transaction."""
    states.publication.move(
        row, Publication.Status.FAILED, by=str(by), why=reason,
        reason=Publication.Reason.CANCELLED, ended_at=now(),
    )  # fmt: skip
    jobs.cancel(row.pk, by=by, reason=reason)
    metrics.publications.inc(channel=row.channel, outcome=Publication.Reason.CANCELLED)


def until_from_now() -> datetime:
    """Return until when a post may appear that is let run again now."""
    return now() + config.settings().PUBLISH_UNTIL


def revive(
    row: Publication, *, by: Any, reason: str, at: datetime | None = None,
    until: datetime | None = None,
) -> None:  # fmt: skip
    """Let a failed publication run again under its id and key, in the caller's transaction.

    Its job is retried with a new budget; if the job is gone, a new one has its id.
    """
    assets.use(Content.model_validate(row.content))
    moment = now()
    start = max(at or moment, moment)
    until = until or start + config.settings().PUBLISH_UNTIL
    states.publication.move(
        row, Publication.Status.PENDING, by=str(by), why=reason, reason="", error="", attempts=0,
        run_at=start, publish_until=until, ended_at=None,
    )  # fmt: skip
    row.run_at, row.publish_until = start, until
    try:
        jobs.retry(row.pk, by=by, reason=reason, reset=True, at=at, expires=until)
    except (jobs.errors.UnknownTarget, jobs.errors.UnknownJob):
        _enqueue_job(row)


def _enqueue(
    account: Account, post: Content, key: str, run_at: datetime | None, until: datetime | None
) -> Enqueued:
    moment = now()
    start = (run_at or moment).astimezone(UTC)
    row = Publication(
        id=uuid.uuid4(), brand_id=account.brand_id, tenant=account.tenant, account=account,
        channel=account.channel, type=post.type, key=key, key_version=keys.VERSION,
        content=post.stored(), scheduled_at=start, run_at=max(start, moment),
        publish_until=until or max(start, moment) + config.settings().PUBLISH_UNTIL,
    )  # fmt: skip
    if row.publish_until <= row.run_at:
        raise Refused(INVALID_JOB, Fault("publish_until", "lies before the time of the post"))
    same = Publication.objects.filter(brand=account.brand_id, channel=account.channel, key=key)
    if (known := same.first()) is not None:
        return Enqueued(known, False)
    try:
        with transaction.atomic():
            assets.use(post)
            row.save(force_insert=True)
            _enqueue_job(row)
    except IntegrityError:  # another process was faster
        if (known := same.first()) is None:
            raise
        return Enqueued(known, False)
    return Enqueued(row, True)


def _enqueue_job(row: Publication) -> None:
    jobs.enqueue(
        PAYLOADS[row.channel](publication_id=row.pk), job_id=row.pk, tenant=row.tenant,
        limit_key=f"publisher:{row.account_id}", run_at=row.run_at, expires=row.publish_until,
        max_attempts=config.settings().MAX_ATTEMPTS,
    )  # fmt: skip


def check_times(run_at: datetime | None, until: datetime | None = None) -> None:
    """Raise Refused for times without a zone."""
    times = (("run_at", run_at), ("publish_until", until))
    words = "needs a time zone, such as Z or +01:00"
    found = [Fault(name, words) for name, at in times if at is not None and at.utcoffset() is None]
    if found:
        raise Refused(INVALID_JOB, *found)


def account_of(
    rows: QuerySet[Account],
    channel: str,
    brand: str | None = None,
    account: uuid.UUID | None = None,
) -> Account:
    """Return the account that is meant, among ``rows``; brand and account may be left out.

    Raises Refused where there is none, or more than one.
    """
    found = rows.filter(channel=channel).exclude(status=Account.Status.DISABLED)
    if account is not None:
        found = found.filter(pk=account)
    if brand is not None:
        found = found.filter(brand__slug=brand)
    listed: list[Account] = list(found.select_related("brand")[:2])
    if len(listed) == 1:
        return listed[0]
    field = "account" if account is not None or brand is not None else "brand"
    if listed:
        raise Refused(INVALID_PLAN, Fault(field, "must be given: there are several accounts"))
    raise Refused(INVALID_PLAN, Fault(field, "there is no such account for this channel"))


def credentials(channel: str, token: str, refresh_token: str) -> dict[str, str]:
    """Return the fields of an account for what its owner has entered."""
    if channel == Channel.BLUESKY:  # the first call begins a session
        return {"app_password": token, "token": "", "refresh_token": ""}
    return {"token": token, "refresh_token": refresh_token}


def create_brand(slug: str, name: str, time_zone: str = "UTC") -> Brand:
    """Create a brand; raise ValidationError for a slug that is none."""
    row = Brand(slug=slug, name=name, time_zone=time_zone, tenant=f"brand:{slug}")
    row.full_clean()
    row.save(force_insert=True)
    return row
