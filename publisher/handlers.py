"""The handlers of the channels, and the end of their jobs. Every process imports this module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jobs
from jobs.retention import sweeper
from publisher import config, mail, pipeline, retention
from publisher import following as following
from publisher.payloads import PAYLOADS, Digest, Tell
from publisher.retention import KEEP, KEEP_LETTERS

TIMEOUT = 300
_settings = config.settings()
QUEUE = jobs.queue(config.QUEUE, at_once=_settings.MAX_CONCURRENT)


def _handler(channel: str) -> Callable[[jobs.Context, Any], dict[str, str]]:
    def publish(ctx: jobs.Context, payload: Any) -> dict[str, str]:
        """Publish one post, once."""
        return pipeline.run(ctx, payload.publication_id, channel)

    publish.__name__ = publish.__qualname__ = f"publish_{channel}"
    return publish


def register(channel: str, payload: type[Any]) -> None:
    """Register the handler of a channel, and what follows the end of its jobs."""
    own = _settings.channel(channel)
    jobs.handler(
        payload,
        queue=QUEUE,
        max_attempts=_settings.MAX_ATTEMPTS,
        backoff=_settings.backoff(channel),
        timeout=TIMEOUT,
        expires=_settings.PUBLISH_UNTIL.total_seconds(),
        expires_unless="started",
        concurrency=own.CONCURRENCY,
        per_key=jobs.Limit(at_once=own.PER_ACCOUNT),
        replayable=False,
        internal=True,
        keep_completed=KEEP,
        keep_failed=KEEP,
        keep_cancelled=KEEP,
        keep_expired=KEEP,
        dead_letter_retention=KEEP_LETTERS,
    )(_handler(channel))
    jobs.ended(payload)(pipeline.close)


for _channel, _payload in PAYLOADS.items():
    register(_channel, _payload)

_MAIL: dict[str, Any] = {
    "queue": config.MAIL_QUEUE, "max_attempts": 5, "timeout": 60, "expires": 86_400,
    "replayable": False, "internal": True,
}  # fmt: skip
jobs.handler(Tell, **_MAIL)(mail.tell)
jobs.handler(Digest, **_MAIL)(mail.digest)

jobs.schedule("publisher-daily", Digest(period="daily"), cron="0 6 * * *", overlap="skip")
jobs.schedule("publisher-weekly", Digest(period="weekly"), cron="0 6 * * MON", overlap="skip")
sweeper("publisher")(retention.trim)
sweeper("publisher-assets")(retention.trim_assets)
sweeper("publisher-consents")(retention.trim_consents)
