"""The first comment on an Instagram post: a publication of its own, whose parent is the post."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction

import jobs
from jobs import http
from publisher import config, keys, signals, states
from publisher.clock import now
from publisher.connectors import graph, instagram
from publisher.connectors.base import Published, Run
from publisher.errors import ProviderError, Unclear
from publisher.models import Channel, Publication
from publisher.payloads import PAYLOADS

log = logging.getLogger("publisher")
TYPE = "ig_first_comment"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A comment to make."""

    message: str
    exists: bool


def prepare(attempt: Run, made: Published) -> Wanted | None:
    """Return the comment that a published post asks for, after looking whether it is there."""
    message = attempt.content.ig_first_comment
    if not message or attempt.row.channel != Channel.META_INSTAGRAM:
        return None
    if not made.remote_id:
        signals.ig_first_comment_error.send(
            sender=Publication, job_id=attempt.row.pk, message="the id of the post is not known"
        )
        return None
    try:
        found = instagram.find_comment(graph.api_of(attempt), made.remote_id, message)
    except (ProviderError, Unclear, http.HttpError, jobs.effects.CircuitOpen):
        found = None  # its own job looks again
    return Wanted(message, found is not None)


def create(parent: Publication, wanted: Wanted | None) -> None:
    """Create the publication of the comment with its job; a failure leaves the post alone."""
    if wanted is None:
        return
    try:
        with transaction.atomic():
            _create(parent, wanted)
    except Exception as error:
        log.exception("the first comment of %s could not be created", parent.pk)
        signals.ig_first_comment_error.send(
            sender=Publication, job_id=parent.pk, message=type(error).__name__
        )


def _create(parent: Publication, wanted: Wanted) -> None:
    key = keys.comment_key(parent.remote_id, wanted.message)
    moment = now()
    content = {"type": TYPE, "media_id": parent.remote_id, "caption": wanted.message}
    until = max(parent.publish_until, moment + timedelta(hours=1))
    row = Publication(
        id=uuid.uuid4(), brand_id=parent.brand_id, tenant=parent.tenant,
        account_id=parent.account_id, channel=parent.channel, type=TYPE, key=key,
        key_version=keys.VERSION, content=content, scheduled_at=moment, run_at=moment,
        publish_until=until, parent=parent,
    )  # fmt: skip
    # Another post cannot have this key: it holds the id of this one.
    if Publication.objects.filter(brand=row.brand_id, channel=row.channel, key=key).exists():
        return
    row.save(force_insert=True)
    if wanted.exists:
        running, completed = Publication.Status.RUNNING, Publication.Status.COMPLETED
        states.publication.walk(row, [running, completed], by="worker", ended_at=moment)
        return
    jobs.enqueue(
        PAYLOADS[row.channel](publication_id=row.pk), job_id=row.pk, tenant=row.tenant,
        limit_key=f"publisher:{row.account_id}", expires=until,
        max_attempts=config.settings().MAX_ATTEMPTS,
    )  # fmt: skip


def report(row: Publication, error: str) -> None:
    """Tell receivers that a comment could not be published."""
    if row.type == TYPE and row.parent_id is not None:
        signals.ig_first_comment_error.send_robust(
            sender=Publication, job_id=row.parent_id, message=error
        )
