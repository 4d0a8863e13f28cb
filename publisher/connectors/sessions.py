"""Sessions of the AT protocol, which an application password begins."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from jobs import http
from publisher import config
from publisher.errors import ProviderError, Unclear
from publisher.models import Account

HELD_FOR = 300.0
SPENT = ("ExpiredToken", "InvalidToken")
REFUSED = (
    "AuthenticationRequired",
    "AccountTakedown",
    "AccountDeactivated",
    "AuthFactorTokenRequired",
)


def renewed(account: Account) -> dict[str, Any]:
    """Return the tokens of the session, prolonged, or else of a new one.

    Sessions are kept: a server limits how many an account may begin in a day.
    """
    base = (account.base_url or config.settings().BLUESKY_URL).rstrip("/")
    if account.refresh_token:
        signed = {"Authorization": f"Bearer {account.refresh_token}"}
        answer = http.post(
            f"{base}/xrpc/com.atproto.server.refreshSession", headers=signed, total=8
        )
        if (found := _tokens(answer, SPENT)) is not None:
            return found
    if not account.app_password:
        raise ProviderError("token", "bluesky ExpiredToken")
    body = {"identifier": account.remote_account, "password": account.app_password}
    answer = http.post(f"{base}/xrpc/com.atproto.server.createSession", json=body, total=8)
    if (found := _tokens(answer, REFUSED)) is not None:
        return found
    raise ProviderError("token", "bluesky AuthenticationRequired")


def _tokens(answer: http.Response, refusals: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the tokens in an answer; None if it is one of the refusals."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unclear(f"status {answer.status_code}")
    if answer.status_code == 429:
        raise ProviderError("later", "bluesky 429", http.retry_after(answer) or HELD_FOR)
    if answer.status_code in (400, 401, 403) and found.get("error") in refusals:
        return None
    access, refresh = found.get("accessJwt"), found.get("refreshJwt")
    if answer.status_code != 200 or not isinstance(access, str) or not isinstance(refresh, str):
        raise Unclear(f"status {answer.status_code}")
    return {"token": access, "refresh_token": refresh, "expires_at": _end_of(access)}


def _end_of(token: str) -> datetime | None:
    """Return when a token expires, if it says so. Nothing is trusted but the time."""
    with suppress(ValueError, KeyError, IndexError, TypeError, OverflowError, OSError):
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return datetime.fromtimestamp(int(claims["exp"]), UTC)
    return None
