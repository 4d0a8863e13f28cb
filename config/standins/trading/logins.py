"""Logging in at Coinbase: who is logged in there agrees at once, and comes back with a code."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlencode

from config.standins.trading.venue import Answer, Asked

CLIENT_ID, CLIENT_SECRET = "jobdesk", "a secret of the stand-in"


@dataclass(frozen=True)
class _Code:
    account: str
    challenge: str
    redirect: str
    scope: str


class Logins:
    """Codes and tokens; a code and a refresh token are good once."""

    def __init__(self) -> None:
        self.account = ""
        """Who is logged in at the venue, and agrees."""
        self.lifetime = 3600
        """Seconds of an access token."""
        self.granted = ""
        """Scopes that are granted instead of those that were asked for."""
        self.refreshed = 0
        self._codes: dict[str, _Code] = {}
        self._access: dict[str, tuple[str, float]] = {}
        self._refresh: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def account_of(self, token: str) -> str:
        """Return the account that a bearer token is good for; empty without one."""
        name, until = self._access.get(token, ("", 0.0))
        return name if time.time() < until else ""

    def expire(self) -> None:
        """Let no access token be good any more."""
        self._access.clear()

    def revoke(self, account: str) -> None:
        """Let the user take back what was agreed to."""
        self.expire()
        self._refresh = {k: v for k, v in self._refresh.items() if v[0] != account}

    def answer(self, asked: Asked) -> Answer:
        """Answer a request below ``/oauth2``."""
        if (asked.method, asked.path) == ("GET", "/oauth2/auth"):
            return self._agree(asked.query)
        if (asked.method, asked.path) == ("POST", "/oauth2/token"):
            with self._lock:
                return self._token(asked.form)
        return Answer(404, {"error": "not_found"})

    def _agree(self, query: dict[str, str]) -> Answer:
        is_known = query.get("client_id") == CLIENT_ID and query.get("response_type") == "code"
        if not is_known or not query.get("redirect_uri"):
            return Answer(400, {"error": "invalid_request"})
        state = query.get("state", "")
        found = {"state": state}
        if len(state) < 8 or query.get("code_challenge_method") != "S256":
            found["error"] = "invalid_request"
        elif not self.account:
            found["error"] = "access_denied"
        else:
            code = secrets.token_urlsafe(16)
            scope = self.granted or query.get("scope", "")
            self._codes[code] = _Code(
                self.account, query["code_challenge"], query["redirect_uri"], scope
            )
            found["code"] = code
        return Answer(302, {}, {"Location": f"{query['redirect_uri']}?{urlencode(found)}"})

    def _token(self, form: dict[str, str]) -> Answer:
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
            return Answer(401, {"error": "invalid_client"})
        if form.get("grant_type") == "refresh_token":
            known = self._refresh.pop(form.get("refresh_token", ""), None)
            if known is None:
                return Answer(400, {"error": "invalid_grant"})
            self.refreshed += 1
            return self._made(*known)
        code = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if code is None or (code.challenge, code.redirect) != (challenge, form.get("redirect_uri")):
            return Answer(400, {"error": "invalid_grant"})
        return self._made(code.account, code.scope)

    def _made(self, account: str, scope: str) -> Answer:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self._access[access] = (account, time.time() + self.lifetime)
        found = {
            "access_token": access, "token_type": "bearer", "expires_in": self.lifetime,
            "scope": scope,
        }  # fmt: skip
        if "offline_access" in scope:
            self._refresh[refresh] = (account, scope)
            found["refresh_token"] = refresh
        return Answer(200, found)
