"""The OAuth of the providers: where a person consents, and which accounts that opens."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from jobs import http
from publisher import config
from publisher.errors import ProviderError, Unclear
from publisher.models import Channel

TOTAL = 10
MOST = 200
"""Up to this many accounts are offered."""
Found = dict[str, Any]
"""An account: ``id``, ``name``, ``token``, ``refresh_token`` and ``expires_in`` in seconds."""


@dataclass(frozen=True, slots=True)
class Service:
    """How a provider is asked for consent."""

    page: str
    """Where a person consents, as the name of a setting and a path."""
    path: str
    scopes: str
    token: Callable[[dict[str, str]], Found]
    """Exchanges a code for tokens."""
    accounts: Callable[[str, Found], list[Found]]
    """Lists the accounts on a channel that the tokens open."""
    client: str = "client_id"
    """What the provider calls the id of the client."""
    more: tuple[tuple[str, str], ...] = ()
    has_pkce: bool = True


def address(channel: str, state: str, verifier: str, back: str) -> str:
    """Return where a person consents; ``back`` is where the provider sends him afterwards."""
    service = SERVICES[channel]
    asked = {
        service.client: _client(channel)[0], "redirect_uri": back, "response_type": "code",
        "scope": service.scopes, "state": state, **dict(service.more),
    }  # fmt: skip
    if service.has_pkce:
        digest = hashlib.sha256(verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        asked |= {"code_challenge": challenge, "code_challenge_method": "S256"}
    base = getattr(config.settings(), service.page).rstrip("/")
    return f"{base}{service.path}?{urlencode(asked)}"


def missing(channel: str) -> list[str]:
    """Return the settings that have to be set before anybody can be asked."""
    settings = config.settings()
    return [name for name in config.CLIENTS[channel] if not getattr(settings, name)]


def exchanged(channel: str, code: str, verifier: str, back: str) -> list[Found]:
    """Return the accounts that a code opens; raise ProviderError, Unclear or HttpError."""
    service = SERVICES[channel]
    asked = {"grant_type": "authorization_code", "code": code, "redirect_uri": back}
    if service.has_pkce:
        asked["code_verifier"] = verifier
    return service.accounts(channel, service.token(asked))[:MOST]


def _client(channel: str) -> tuple[str, str]:
    settings = config.settings()
    name, secret = config.CLIENTS[channel]
    return getattr(settings, name), getattr(settings, secret)


def _read(answer: http.Response) -> Mapping[str, Any]:
    """Return the object in an answer; raise for a refusal and for anything else."""
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict) or answer.status_code >= 500:
        raise Unclear(f"status {answer.status_code}")
    error = found.get("error")
    if answer.status_code != 200 or (error and isinstance(error, str)):
        code = error if isinstance(error, str) else answer.status_code
        raise ProviderError("permanent", str(code)[:60])
    return found


def _tokens(answer: http.Response) -> Found:
    found = _read(answer)
    if not isinstance(token := found.get("access_token"), str) or not token:
        raise Unclear("the answer has no token")
    seconds = found.get("expires_in")
    return {
        "token": token, "refresh_token": str(found.get("refresh_token") or ""),
        "expires_in": seconds if isinstance(seconds, int) else None,
        "open_id": str(found.get("open_id") or ""),
    }  # fmt: skip


def _rows(found: Any, name: str) -> list[dict[str, Any]]:
    rows = found.get(name, []) if isinstance(found, Mapping) else None
    if not isinstance(rows, list):
        raise Unclear("the answer has no list")
    return [row for row in rows if isinstance(row, dict)]


def _get(url: str, token: str, headers: Mapping[str, str] | None = None, **params: Any) -> Any:
    signed = {"Authorization": f"Bearer {token}", **(headers or {})}
    return _read(http.get(url, params=params, headers=signed, total=TOTAL))


# ---- Meta


def _meta_token(asked: dict[str, str]) -> Found:
    """Exchange a code, and the token for one that lasts: those of its pages do not expire."""
    settings = config.settings()
    url = f"{settings.GRAPH_URL}/oauth/access_token"
    client = {"client_id": settings.META_APP_ID, "client_secret": settings.META_APP_SECRET}
    short = _tokens(http.post(url, data={**asked, **client}, total=TOTAL))
    more = {"grant_type": "fb_exchange_token", "fb_exchange_token": short["token"], **client}
    return _tokens(http.post(url, data=more, total=TOTAL))


def _meta_accounts(channel: str, tokens: Found) -> list[Found]:
    fields = "id,name,access_token,instagram_business_account{id,username}"
    url = f"{config.settings().GRAPH_URL}/me/accounts"
    found = []
    for page in _rows(_get(url, tokens["token"], fields=fields, limit=100), "data"):
        own = {"token": str(page.get("access_token") or ""), "refresh_token": ""}
        user = page.get("instagram_business_account")
        if channel == Channel.META_FACEBOOK:
            found.append({"id": page.get("id"), "name": page.get("name"), **own})
        elif isinstance(user, dict):
            found.append({"id": user.get("id"), "name": user.get("username"), **own})
    return found


# ---- Google


def _google_token(asked: dict[str, str]) -> Found:
    settings = config.settings()
    client = {
        "client_id": settings.GOOGLE_CLIENT_ID, "client_secret": settings.GOOGLE_CLIENT_SECRET,
    }  # fmt: skip
    return _tokens(http.post(settings.GOOGLE_TOKEN_URL, data={**asked, **client}, total=TOTAL))


def _locations(channel: str, tokens: Found) -> list[Found]:
    settings, token = config.settings(), tokens["token"]
    accounts = _rows(_get(f"{settings.GOOGLE_ACCOUNTS_URL}/v1/accounts", token), "accounts")
    found = []
    for account in accounts[:20]:
        url = f"{settings.GOOGLE_LOCATIONS_URL}/v1/{account.get('name')}/locations"
        rows = _rows(_get(url, token, readMask="name,title", pageSize=100), "locations")
        found += [
            {**tokens, "id": f"{account.get('name')}/{row.get('name')}", "name": row.get("title")}
            for row in rows
        ]
    return found


def _youtube(channel: str, tokens: Found) -> list[Found]:
    url = f"{config.settings().YOUTUBE_URL}/youtube/v3/channels"
    return [
        {**tokens, "id": row.get("id"), "name": (row.get("snippet") or {}).get("title")}
        for row in _rows(_get(url, tokens["token"], part="snippet", mine="true"), "items")
    ]


# ---- TikTok, LinkedIn, X


def _tiktok_token(asked: dict[str, str]) -> Found:
    settings = config.settings()
    client = {
        "client_key": settings.TIKTOK_CLIENT_KEY, "client_secret": settings.TIKTOK_CLIENT_SECRET,
    }  # fmt: skip
    url = f"{settings.TIKTOK_URL}/v2/oauth/token/"
    return _tokens(http.post(url, data={**asked, **client}, total=TOTAL))


def _tiktok(channel: str, tokens: Found) -> list[Found]:
    url = f"{config.settings().TIKTOK_URL}/v2/user/info/"
    found = _get(url, tokens["token"], fields="open_id,display_name")
    user = (found.get("data") or {}).get("user") or {}
    return [{**tokens, "id": user.get("open_id"), "name": user.get("display_name")}]


def _linkedin_token(asked: dict[str, str]) -> Found:
    settings = config.settings()
    client = {
        "client_id": settings.LINKEDIN_CLIENT_ID,
        "client_secret": settings.LINKEDIN_CLIENT_SECRET,
    }
    url = f"{settings.LINKEDIN_AUTH_URL}/oauth/v2/accessToken"
    return _tokens(http.post(url, data={**asked, **client}, total=TOTAL))


def _linkedin(channel: str, tokens: Found) -> list[Found]:
    settings, token = config.settings(), tokens["token"]
    me = _get(f"{settings.LINKEDIN_URL}/v2/userinfo", token)
    found = [{**tokens, "id": f"urn:li:person:{me.get('sub')}", "name": me.get("name")}]
    headers = {
        "LinkedIn-Version": settings.LINKEDIN_VERSION, "X-Restli-Protocol-Version": "2.0.0",
    }  # fmt: skip
    url = f"{settings.LINKEDIN_URL}/rest/organizationAcls"
    asked = {"q": "roleAssignee", "role": "ADMINISTRATOR", "state": "APPROVED"}
    try:
        rows = _rows(_get(url, token, headers, **asked), "elements")
    except ProviderError:  # the client may not see pages; the member remains
        rows = []
    return found + [
        {**tokens, "id": row.get("organization"), "name": row.get("organization")} for row in rows
    ]


def _x_token(asked: dict[str, str]) -> Found:
    settings = config.settings()
    auth = (settings.X_CLIENT_ID, settings.X_CLIENT_SECRET)
    body = {**asked, "client_id": settings.X_CLIENT_ID}
    return _tokens(http.post(f"{settings.X_URL}/2/oauth2/token", data=body, auth=auth, total=TOTAL))


def _x(channel: str, tokens: Found) -> list[Found]:
    user = _get(f"{config.settings().X_URL}/2/users/me", tokens["token"]).get("data") or {}
    return [{**tokens, "id": user.get("id"), "name": user.get("username")}]


_META = Service(
    "META_AUTH_URL", "/dialog/oauth",
    "pages_show_list,pages_manage_posts,pages_read_engagement,instagram_basic,"
    "instagram_content_publish,instagram_manage_comments,business_management",
    _meta_token, _meta_accounts, has_pkce=False,
)  # fmt: skip
_OFFLINE = (("access_type", "offline"), ("prompt", "consent"))
_GOOGLE = "https://www.googleapis.com/auth/"
SERVICES: Mapping[str, Service] = {
    Channel.META_FACEBOOK: _META, Channel.META_INSTAGRAM: _META,
    Channel.META_INSTAGRAM_STORIES: _META,
    Channel.GOOGLE_BUSINESS: Service(
        "GOOGLE_AUTH_URL", "/o/oauth2/v2/auth", f"{_GOOGLE}business.manage", _google_token,
        _locations, more=_OFFLINE,
    ),
    Channel.YOUTUBE: Service(
        "GOOGLE_AUTH_URL", "/o/oauth2/v2/auth",
        f"{_GOOGLE}youtube.upload {_GOOGLE}youtube.readonly", _google_token, _youtube,
        more=_OFFLINE,
    ),
    Channel.TIKTOK: Service(
        "TIKTOK_AUTH_URL", "/v2/auth/authorize/", "user.info.basic,video.publish", _tiktok_token,
        _tiktok, client="client_key", has_pkce=False,
    ),
    Channel.LINKEDIN: Service(
        "LINKEDIN_AUTH_URL", "/oauth/v2/authorization",
        "openid profile w_member_social w_organization_social r_organization_social",
        _linkedin_token, _linkedin, has_pkce=False,
    ),
    Channel.X: Service(
        "X_AUTH_URL", "/i/oauth2/authorize",
        "tweet.read tweet.write users.read media.write offline.access", _x_token, _x,
    ),
}  # fmt: skip
"""By channel. WordPress and Bluesky have application passwords, and each Mastodon server is its
own provider."""
