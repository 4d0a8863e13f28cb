"""Sending one delivery of a webhook: what is said, what is answered, and what follows."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.db import transaction

from jobs import conf, http, redaction, webhooks
from jobs.engine import outbox, sql
from jobs.jsontext import printable

log = logging.getLogger("jobs.webhooks")

TIMEOUT = 5.0
"""Seconds for a whole try."""
ANSWER_LIMIT = 65536
"""Bytes of an answer; a larger one is a failure."""
EXCERPT = 500
"""Characters of an answer that are kept."""
LOG_LIMIT = 20
"""Tries of a delivery that are kept."""
LEAST = 5
"""This many tries must have failed in a row before a webhook is disabled."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A delivery, ready to be sent."""

    delivery: UUID
    webhook: UUID
    number: int
    """1 for the first try."""
    url: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)
    event_id: UUID
    sent_at: str
    body: bytes = field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            webhooks.SIGNATURE: webhooks.sign(self.body, *self.secrets),
            webhooks.EVENT_ID: str(self.event_id),
            webhooks.RETRY_COUNT: str(self.number - 1),
            webhooks.SENT_AT: self.sent_at,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """What the receiver said, or why it said nothing."""

    status: int | None
    ms: int
    problem: str = ""
    excerpt: str = ""
    retry_after: float = 0.0

    @property
    def is_gone(self) -> bool:
        return self.status == 410


_OF = "SELECT webhook_id FROM jobs_webhookdelivery WHERE id = %s"
_WEBHOOK = "SELECT state FROM jobs_webhook WHERE id = %s FOR SHARE"
_HOLD = """
UPDATE jobs_webhookdelivery SET state = 'held', job_id = NULL, closed_at = NULL WHERE id = %s
"""
_BEGIN = """
UPDATE jobs_webhookdelivery SET tries = tries + 1, state = 'waiting', closed_at = NULL
WHERE id = %s AND state IN ('waiting', 'failed', 'dropped') AND job_id = %s
RETURNING tries, event_id, topic, sequence, data::text, jobs_clock()
"""


def begin(delivery: UUID, job: UUID) -> Parcel | str:
    """The delivery, one more try counted; or what has become of it that it is not to be sent."""
    with transaction.atomic(using=sql.alias()):
        owner = sql.rows(_OF, [delivery])
        state = sql.rows(_WEBHOOK, [owner[0][0]]) if owner else []
        if not state:
            return "gone"
        found = sql.rows(_BEGIN, [delivery, job])
        if not found:
            return "superseded"
        if state[0][0] != "active":
            sql.run(_HOLD, [delivery])
            sql.run("UPDATE jobs_webhookdelivery SET tries = tries - 1 WHERE id = %s", [delivery])
            return "held"
        tries, event_id, topic, sequence, data, now = found[0]
        from jobs.models import Webhook

        webhook = Webhook.objects.using(sql.alias()).get(id=owner[0][0])
        secrets = valid_secrets(webhook.secrets, now)
    sent_at = now.isoformat(timespec="milliseconds")
    told = {
        "eventType": topic,
        "eventId": str(event_id),
        "timestamp": sent_at,
        "sequenceNumber": sequence,
        "data": json.loads(data),
    }
    body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    return Parcel(delivery, webhook.id, tries, webhook.url, secrets, event_id, sent_at, body)


def valid_secrets(secrets: list[dict[str, Any]], now: datetime) -> tuple[str, ...]:
    """The secrets with which to sign now, the newest first."""
    return tuple(
        one["secret"]
        for one in secrets
        if not one["until"] or datetime.fromisoformat(one["until"]) > now
    )


def send(parcel: Parcel) -> Answer:
    """What became of one try. Raises nothing that the receiver could cause."""
    begun = time.monotonic()

    def ms() -> int:
        return round((time.monotonic() - begun) * 1000)

    try:
        with http.client(total=TIMEOUT, step=TIMEOUT, max_bytes=ANSWER_LIMIT) as client:
            answer = client.post(parcel.url, content=parcel.body, headers=parcel.headers)
    except http.HttpError as error:
        return Answer(None, ms(), f"{type(error).__name__}: {error}")
    with redaction.scrubbing(parcel.secrets):
        text = redaction.redact_text(_excerpt(answer.content), multiline=True)
    excerpt = printable(text, EXCERPT)
    if answer.is_success:
        return Answer(answer.status_code, ms(), "", excerpt)
    floor = http.retry_after(answer) if answer.status_code in (429, 503) else None
    problem = f"the receiver answered {answer.status_code}"
    return Answer(answer.status_code, ms(), problem, excerpt, floor or 0.0)


def _excerpt(content: bytes) -> str:
    """Return the beginning as text, whatever encoding the receiver names."""
    return content[: EXCERPT * 4].decode(errors="replace")


# ---- what follows

_LOCK = """
SELECT tenant, url, state, failures, failing_since, jobs_clock() FROM jobs_webhook
WHERE id = %s FOR NO KEY UPDATE
"""
_RECORD = """
UPDATE jobs_webhookdelivery SET log = CASE WHEN jsonb_array_length(log) >= %s
    THEN log - 0 ELSE log END || %s::jsonb,
  state = %s, job_id = CASE WHEN %s = 'held' THEN NULL ELSE job_id END,
  closed_at = CASE WHEN %s IN ('delivered', 'failed') THEN jobs_clock() END
WHERE id = %s AND state = 'waiting'
"""
# The COMMIT of an earlier call may have been answered to nobody.
_RECORDED = "SELECT state FROM jobs_webhookdelivery WHERE id = %s AND log @> %s::jsonb"
_WELL = """
UPDATE jobs_webhook SET failures = 0, failing_since = NULL WHERE id = %s AND failures > 0
"""
_ILL = """
UPDATE jobs_webhook SET failures = failures + 1, failing_since = coalesce(failing_since,
  jobs_clock()) WHERE id = %s
"""
_DISABLE = """
UPDATE jobs_webhook SET state = 'disabled', stopped_by = 'jobs', stopped_reason = %s,
  stopped_at = jobs_clock() WHERE id = %s
"""


def record(parcel: Parcel, answer: Answer, *, is_last: bool) -> str:
    """The try is on the delivery, in the caller's transaction; answers the delivery's state."""
    found = sql.rows(_LOCK, [parcel.webhook])
    if not found:
        return "gone"
    tenant, url, state, failures, since, now = found[0]
    mark = json.dumps([{"try": parcel.number, "at": parcel.sent_at}])
    if known := sql.rows(_RECORDED, [parcel.delivery, mark]):
        return str(known[0][0])
    if not answer.problem:
        outcome = "delivered"
        sql.run(_WELL, [parcel.webhook])
    else:
        sql.run(_ILL, [parcel.webhook])
        lasting = since is not None and now - since >= conf.settings().WEBHOOK_DISABLE_AFTER
        why = ""
        if answer.is_gone:
            why = "the receiver answered 410 Gone"
        elif lasting and failures + 1 >= LEAST:
            why = f"every try has failed since {since:%Y-%m-%d %H:%M} UTC"
        if why and state == "active":
            _disable(parcel.webhook, tenant, url, why, failures + 1)
            state = "disabled"
        outcome = "held" if state != "active" else "failed" if is_last else "waiting"
    one = {
        "try": parcel.number,
        "at": parcel.sent_at,
        "status": answer.status,
        "ms": answer.ms,
        "problem": answer.problem,
        "answer": answer.excerpt,
    }
    values = [LOG_LIMIT, json.dumps([one]), outcome, outcome, outcome, parcel.delivery]
    sql.run(_RECORD, values)
    return outcome


def _disable(webhook: UUID, tenant: str, url: str, why: str, failures: int) -> None:
    sql.run(_DISABLE, [why, webhook])
    told = {
        "webhook": str(webhook),
        "host": urlsplit(url).hostname or "",
        "reason": why,
        "failures": failures,
    }
    outbox.tell("jobs.webhook.disabled", told, key=f"webhook:{webhook}", tenant=tenant)
    log.warning("webhook %s is disabled: %s", webhook, why)
