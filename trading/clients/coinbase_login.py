"""Logging in at Coinbase (OAuth 2 with PKCE): the address to go to, and tokens for a code."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from jobs import http
from trading.clients.venue import Rights, check_status
from trading.clock import now
from trading.config import settings
from trading.errors import KeyRefused, VenueAway, VenueError

READ = "wallet:transactions:read"
SCOPES = ("wallet:user:read", READ, "offline_access")
_TRADES = ("wallet:buys:", "wallet:sells:", "wallet:orders:", "wallet:trades:")
_TRANSFERS = ("wallet:transactions:", "wallet:withdrawals:", "wallet:deposits:", "wallet:contacts:")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a login has brought."""

    access: str = field(repr=False)
    refresh: str = field(repr=False)
    expires_at: datetime
    scope: str

    @property
    def rights(self) -> Rights:
        """Return what the scopes allow: each of them reads, unless it names what it does."""
        granted = self.scope.replace(",", " ").split()
        more = [scope for scope in granted if not scope.endswith((":read", ":email"))]
        return Rights(
            READ in granted, any(scope.startswith(_TRADES) for scope in more),
            any(scope.startswith(_TRANSFERS) for scope in more),
        )  # fmt: skip


def address(state: str, verifier: str, redirect: str) -> str:
    """Return where the user logs in and consents."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
    asked = {
        "response_type": "code", "client_id": settings().COINBASE_CLIENT_ID,
        "redirect_uri": redirect, "state": state, "scope": " ".join(SCOPES),
        "code_challenge": challenge.decode().rstrip("="), "code_challenge_method": "S256",
    }  # fmt: skip
    return f"{settings().COINBASE_LOGIN_URL.rstrip('/')}/oauth2/auth?{urlencode(asked)}"


def exchanged(code: str, verifier: str, redirect: str) -> Tokens:
    """Exchange a code for tokens; raise KeyRefused for one that is wrong or used."""
    found = _ask({
        "grant_type": "authorization_code", "code": code, "code_verifier": verifier,
        "redirect_uri": redirect,
    })  # fmt: skip
    made = _read(found)
    if not made["refresh_token"]:
        raise VenueError("BAD_PAGE")
    scope = str(found.get("scope") or "")[:500]
    return Tokens(made["access_token"], made["refresh_token"], made["expires_at"], scope)


def refreshed(refresh_token: str) -> dict[str, Any]:
    """Return new tokens by field; the old refresh token is used up, unless no other comes."""
    return _read(_ask({"grant_type": "refresh_token", "refresh_token": refresh_token}))


def _read(found: dict[str, Any]) -> dict[str, Any]:
    access, refresh, seconds = (
        found.get(name) for name in ("access_token", "refresh_token", "expires_in")
    )
    is_number = isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds < 10**9
    if not isinstance(access, str) or not access or not is_number:
        raise VenueError("BAD_PAGE")
    return {
        "access_token": access, "refresh_token": refresh if isinstance(refresh, str) else "",
        "expires_at": now() + timedelta(seconds=seconds),  # type: ignore[arg-type]
    }  # fmt: skip


def _ask(asked: dict[str, str]) -> dict[str, Any]:
    s = settings()
    client = {"client_id": s.COINBASE_CLIENT_ID, "client_secret": s.COINBASE_CLIENT_SECRET}
    url = f"{s.COINBASE_LOGIN_URL.rstrip('/')}/oauth2/token"
    try:
        answer = http.post(url, data={**asked, **client}, connect=1, step=3, total=6)
    except http.HttpError:
        raise VenueAway("VENUE_AWAY") from None
    check_status(answer)
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise VenueError("BAD_PAGE")
    if answer.status_code < 300:
        return found
    if found.get("error") == "invalid_grant":
        raise KeyRefused("LINK_AGAIN")
    raise VenueError("LOGIN_REFUSED")  # this project's own client: no fault of the user's
