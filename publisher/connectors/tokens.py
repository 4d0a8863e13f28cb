"""Tokens of accounts: refreshed once by whoever comes first, and given up only when refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction

import jobs
from jobs import http
from publisher import config
from publisher.clock import now
from publisher.connectors import sessions
from publisher.errors import ProviderError, Unclear
from publisher.models import Account, Channel, Refusal

AHEAD = timedelta(minutes=5)
FIELDS = ("token", "refresh_token", "expires_at")
HELD_FOR = 300.0
"""Seconds that posts wait where the provider refuses the project's own credentials."""


REFRESHED = (
    Channel.GOOGLE_BUSINESS, Channel.YOUTUBE, Channel.TIKTOK, Channel.LINKEDIN, Channel.X,
)  # fmt: skip
META = (Channel.META_FACEBOOK, Channel.META_INSTAGRAM, Channel.META_INSTAGRAM_STORIES)
"""Their tokens are exchanged for new ones, while they are good."""
META_AHEAD = timedelta(days=7)


def keep_fresh(account: Account) -> None:
    """Refresh a token that is about to expire."""
    ahead = META_AHEAD if account.channel in META else AHEAD
    is_new = not account.token  # of an application password
    if not is_new and (account.expires_at is None or account.expires_at - ahead > now()):
        return
    try:
        renew(account)
    except ProviderError:
        if is_new or account.expires_at is None or account.expires_at <= now():
            raise
        # The token is good still; the next call tries again.


def renew(account: Account) -> bool:
    """Refresh the token of the account; return False where that is not possible.

    Raises ProviderError: with the action ``token`` where the provider refuses for good, and with
    ``retry`` where its answer does not come or cannot be read.
    """
    if (ask := _refresher(account)) is None:
        return False
    try:
        http.refresh_once(account, ask, fields=FIELDS)
    except (Unclear, http.HttpError) as error:
        raise ProviderError("retry", f"refresh: {_words(error)}") from error
    except ProviderError as error:
        if error.scope == "kind":
            _report(account.channel, error.code)
        raise
    Refusal.objects.filter(channel=account.channel).delete()
    return True


def _refresher(account: Account) -> Callable[[Account], dict[str, Any]] | None:
    """Return what asks for a new token; None where the account can have none."""
    if account.channel in META:
        return _exchange if config.settings().META_APP_ID else None
    if account.channel == Channel.BLUESKY:
        return sessions.renewed if account.app_password or account.refresh_token else None
    return _ask if account.channel in REFRESHED and account.refresh_token else None


def _report(channel: str, code: str) -> None:
    """Note that the provider refuses this project's own client, and publish it once."""
    with transaction.atomic():
        values = {"code": code[:100]}
        _, is_new = Refusal.objects.get_or_create(channel=channel, defaults=values)
        if is_new:
            payload = {"channel": channel, "code": code}
            jobs.emit("publisher.client.refused", payload, key=f"client:{channel}")


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, Unclear) else "no answer"


def _ask(account: Account) -> dict[str, Any]:
    client = _client_of(account)
    body = {
        "grant_type": "refresh_token", "refresh_token": account.refresh_token, **client.body,
    }  # fmt: skip
    more: dict[str, Any] = {"auth": client.auth} if client.auth else {}
    answer = http.post(client.url, data=body, total=10, **more)
    found = _decoded(answer)
    if answer.status_code in (400, 401) or (found.get("error") and answer.status_code == 200):
        code = str(found.get("error", ""))[:60]
        if code in client.refusals:
            raise ProviderError("token", code)
        raise ProviderError("later", code, HELD_FOR, "kind")
    return _tokens(answer, found, timedelta(hours=1))


def _exchange(account: Account) -> dict[str, Any]:
    """Exchange a token of Meta for one that lasts another sixty days."""
    settings = config.settings()
    asked = {
        "grant_type": "fb_exchange_token", "client_id": settings.META_APP_ID,
        "client_secret": settings.META_APP_SECRET, "fb_exchange_token": account.token,
    }  # fmt: skip
    base = account.base_url or settings.GRAPH_URL
    answer = http.get(f"{base.rstrip('/')}/oauth/access_token", params=asked, total=10)
    found = _decoded(answer)
    error = found.get("error")
    if answer.status_code in (400, 401) and isinstance(error, dict):
        code = error.get("code")
        if code == 190:
            raise ProviderError("token", "meta 190")
        raise ProviderError("later", f"meta {str(code)[:20]}", HELD_FOR, "kind")
    return _tokens(answer, found, None)


def _decoded(answer: http.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unclear(f"status {answer.status_code}")
    return found


def _tokens(
    answer: http.Response, found: dict[str, Any], usual: timedelta | None
) -> dict[str, Any]:
    """Return the new values; ``usual`` is how long a token lasts that does not say it."""
    if answer.status_code != 200 or not found.get("access_token"):
        raise Unclear(f"status {answer.status_code}")
    seconds = found.get("expires_in")
    lasts = timedelta(seconds=seconds) if isinstance(seconds, int) else usual
    return {
        "token": str(found["access_token"]), "refresh_token": str(found.get("refresh_token") or ""),
        "expires_at": None if lasts is None else now() + lasts,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Client:
    """The project's own client at a provider, as a refresh shows it."""

    url: str
    body: Mapping[str, str] = field(default_factory=dict)
    auth: tuple[str, str] | None = None
    refusals: tuple[str, ...] = ("invalid_grant",)
    """Errors that mean the refresh token, and not the client."""


def _client_of(account: Account) -> _Client:
    settings, base = config.settings(), account.base_url
    if account.channel == Channel.TIKTOK:
        client = {
            "client_key": settings.TIKTOK_CLIENT_KEY,
            "client_secret": settings.TIKTOK_CLIENT_SECRET,
        }
        return _Client(f"{base or settings.TIKTOK_URL}/v2/oauth/token/", client)
    if account.channel == Channel.X:
        auth = (settings.X_CLIENT_ID, settings.X_CLIENT_SECRET)
        # X calls a refresh token that was used before an invalid request.
        refusals = ("invalid_grant", "invalid_request")
        body = {"client_id": settings.X_CLIENT_ID}
        return _Client(f"{base or settings.X_URL}/2/oauth2/token", body, auth, refusals)
    if account.channel == Channel.LINKEDIN:
        client = {
            "client_id": settings.LINKEDIN_CLIENT_ID,
            "client_secret": settings.LINKEDIN_CLIENT_SECRET,
        }
        return _Client(f"{base or settings.LINKEDIN_AUTH_URL}/oauth/v2/accessToken", client)
    client = {
        "client_id": settings.GOOGLE_CLIENT_ID, "client_secret": settings.GOOGLE_CLIENT_SECRET,
    }  # fmt: skip
    return _Client(settings.GOOGLE_TOKEN_URL, client)


def give_up(account: Account, code: str) -> None:
    """Mark an account whose token the provider refuses, and say so once."""
    rows = Account.objects.filter(pk=account.pk, status=Account.Status.CONNECTED)
    # A token that was replaced meanwhile is not the one that was refused.
    if Account.objects.get(pk=account.pk).token != account.token:
        return
    if rows.update(status=Account.Status.NEEDS_RECONNECT):
        payload = {"account": str(account.pk), "code": code}
        jobs.emit(
            "publisher.account.needs_reconnect", payload, key=f"account:{account.pk}",
            tenant=account.tenant,
        )  # fmt: skip
