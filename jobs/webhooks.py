"""Webhooks: made by apps for their customers, and verified by receivers.

::

    made = webhooks.create(url, tenant="acme", topics=["order.*"], by=request.user, reason="asked")

    event = webhooks.verify(request.body, request.headers["X-Signature"], SECRET)

``sign`` and ``verify`` need the standard library only, neither a database nor settings; everything
else is loaded when it is first used.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jobs.errors import JobsError

if TYPE_CHECKING:
    from jobs.operate.webhooks import (
        EVERY_TENANT,
        Made,
        create,
        delete,
        deliveries,
        edit,
        every,
        find,
        pause,
        ping,
        redeliver,
        resume,
        rotate_secret,
    )

__all__ = [
    "EVERY_TENANT",
    "BadSignature",
    "Made",
    "create",
    "delete",
    "deliveries",
    "edit",
    "every",
    "find",
    "new_secret",
    "pause",
    "ping",
    "redeliver",
    "resume",
    "rotate_secret",
    "sign",
    "verify",
]

SIGNATURE, EVENT_ID, RETRY_COUNT, SENT_AT = (
    "X-Signature",
    "X-Event-Id",
    "X-Retry-Count",
    "X-Sent-At",
)
"""The headers of a delivery."""
TOLERANCE = 300.0
"""Seconds that the sender's clock and ours may differ, with the way between."""
_SCHEME = "sha256="
_MOST = 8
"""This many signatures of one header are looked at."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("jobs.operate.webhooks"), name)


class BadSignature(JobsError):
    """The delivery was not signed with one of the secrets, or not just now."""


def new_secret() -> str:
    """A secret that nobody has had before."""
    return "whsec_" + secrets.token_urlsafe(32)


def sign(body: bytes, *with_secrets: str) -> str:
    """The header for the body: one signature, or while a secret is replaced one for each."""
    return ",".join(_SCHEME + _digest(body, secret) for secret in with_secrets)


def verify(
    body: bytes,
    header: str | None,
    secret: str | Iterable[str],
    tolerance: float | timedelta | None = TOLERANCE,
    *,
    now: float | None = None,
) -> dict[str, Any]:
    """What the delivery says: eventType, eventId, timestamp, sequenceNumber and data.

    ``body`` are the bytes as they came. ``secret`` may be several, while one is replaced.
    ``tolerance`` bounds the age of the delivery, so that an old one cannot be sent again by
    somebody who has seen it; None leaves it out. Raises BadSignature.
    """
    known = [secret] if isinstance(secret, str) else list(secret)
    if not known or not all(isinstance(one, str) and one for one in known):
        raise ValueError("verify: secret must be one text or several, and none of them empty")
    if not isinstance(body, bytes):
        raise TypeError(f"verify: body must be bytes as they came, got {type(body).__name__}")
    _check_signature(body, header or "", known)
    try:
        told = json.loads(body)
        sent = datetime.fromisoformat(told["timestamp"])
        age = (time.time() if now is None else now) - sent.timestamp()
    except (ValueError, TypeError, KeyError, OverflowError):
        raise BadSignature("the body is no delivery") from None
    if sent.tzinfo is None:
        raise BadSignature("the body is no delivery")
    if tolerance is not None:
        most = tolerance.total_seconds() if isinstance(tolerance, timedelta) else tolerance
        if abs(age) > most:
            raise BadSignature("the delivery was sent too long ago, or clocks differ")
    return dict(told)


def _check_signature(body: bytes, header: str, known: list[str]) -> None:
    given = [part.strip().encode() for part in header.split(",", _MOST)[:_MOST]]
    matches = False
    for secret in known:
        expected = (_SCHEME + _digest(body, secret)).encode()
        for one in given:  # all of them, whichever matches
            matches |= hmac.compare_digest(one, expected)
    if not matches:
        raise BadSignature("the signature is none of ours")


def _digest(body: bytes, secret: str) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
