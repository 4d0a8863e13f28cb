"""Signatures of requests: HMAC-SHA256 over the timestamp and the very bytes that are sent."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.db import connection

from trading.models import AiSignature

SKEW = timedelta(seconds=300)
REMEMBER = timedelta(seconds=600)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)\Z", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)


class BadSignature(Exception):
    """The request is not accepted: ``key``, ``sig``, ``skew`` or ``replay``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def sign(secret: str, stamp: str, body: bytes) -> str:
    """Return the signature of a request."""
    return hmac.new(secret.encode(), stamp.encode() + body, hashlib.sha256).hexdigest()


def headers(key_id: str, secret: str, body: bytes) -> dict[str, str]:
    """Return the headers of a request; microseconds tell equal requests apart."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "X-KeyId": key_id,
        "X-Timestamp": stamp,
        "X-Signature": sign(secret, stamp, body),
        "Content-Type": "application/json",
    }


def verify(keys: Mapping[str, str], given: Mapping[str, str], body: bytes) -> str:
    """Return the key id of a request that is genuine, recent and new; raise BadSignature."""
    key_id = given.get("X-KeyId", "")
    secret = keys.get(key_id)
    if not secret:
        raise BadSignature("key")
    stamp, signature = given.get("X-Timestamp", ""), given.get("X-Signature", "")
    if not _HEX.match(signature) or not hmac.compare_digest(sign(secret, stamp, body), signature):
        raise BadSignature("sig")
    if not _STAMP.match(stamp):
        raise BadSignature("skew")
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        raise BadSignature("skew") from None
    if abs(datetime.now(UTC) - moment) > SKEW:
        raise BadSignature("skew")
    if not _remember(key_id, signature):
        raise BadSignature("replay")
    return key_id


def _remember(key_id: str, signature: str) -> bool:
    """Store the signature; return False if it was accepted before."""
    table = connection.ops.quote_name(AiSignature._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (key_id, signature) VALUES (%s, %s) ON CONFLICT DO NOTHING",  # noqa: S608 - a constant
            [key_id, signature],
        )
        return bool(cursor.rowcount)
