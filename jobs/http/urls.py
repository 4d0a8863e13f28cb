"""Which URLs a call may name, seen before anything is resolved."""

from __future__ import annotations

import re

import httpx
import idna

from jobs import addresses, conf
from jobs.http.errors import Blocked

SCHEMES = {"http": 80, "https": 443}
LONGEST = 8192
"""Characters of a URL."""

_ABSOLUTE = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)", re.DOTALL)
_ODD = re.compile(r"[\x00-\x20\x7f\\]")
_KEPT_ACROSS_HOSTS = frozenset(
    {"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}
)


def check(url: str | httpx.URL) -> httpx.URL:
    """The URL, normalised; raises Blocked unless a call may name it.

    Nothing is resolved: a name that passes may still lead where no call may go, and is then blocked
    when the call is made.
    """
    if isinstance(url, str):
        url = parsed(url)
    if url.scheme not in SCHEMES:
        raise Blocked("only http and https URLs may be called")
    if url.userinfo:
        raise Blocked("a URL with a user name or password may not be called")
    if "@" in url.fragment and url.raw_path == b"/":
        raise Blocked("a URL whose host is ambiguous may not be called")
    _check_host(url.raw_host.decode("ascii"), _port(url))
    return url


def parsed(text: str) -> httpx.URL:
    """The text as a URL, its host in the spelling of IDNA; raises Blocked where it is malformed."""
    if len(text) > LONGEST:
        raise Blocked(f"a URL of more than {LONGEST} characters may not be called")
    if _ODD.search(text):
        raise Blocked("a URL with spaces, control characters or backslashes may not be called")
    try:
        return httpx.URL(_with_plain_host(text))
    except (httpx.InvalidURL, ValueError):
        raise Blocked("a malformed URL may not be called") from None


def is_absolute(url: str | httpx.URL) -> bool:
    """Whether the URL names a scheme."""
    return bool(_ABSOLUTE.fullmatch(str(url)))


def _with_plain_host(text: str) -> str:
    match = _ABSOLUTE.fullmatch(text)
    if match is None or text.isascii() or not match["rest"].startswith("//"):
        return text
    authority, slash, path = re.fullmatch(r"//([^/?#]*)([/?#]?)(.*)", match["rest"]).groups()  # type: ignore[union-attr]
    user, at, place = authority.rpartition("@")
    host, colon, port = place.partition(":")
    if not place.startswith("[") and not host.isascii():
        host = idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    return f"{match['scheme']}://{user}{at}{host}{colon}{port}{slash}{path}"


def _port(url: httpx.URL) -> int:
    return SCHEMES[url.scheme] if url.port is None else url.port


def _check_host(host: str, port: int) -> None:
    settings = conf.settings()
    allowed = addresses.allowed(settings.HTTP_ALLOW)
    address = addresses.literal(host.removeprefix("[").removesuffix("]"))
    if address is None and not _is_plain(host):
        raise Blocked("a URL with an odd spelling of its host may not be called")
    name = host if address is None else str(address)
    if allowed.names(name):
        return
    if port not in settings.HTTP_PORTS:
        raise Blocked(f"port {port} may not be called")
    if address is None and "." not in host:
        raise Blocked("a host without a domain may not be called")
    if address is not None and not addresses.is_public(address):
        raise Blocked("an address that is not public may not be called")


def _is_plain(host: str) -> bool:
    if not addresses.is_name(host):
        return False
    try:
        return all(idna.encode(idna.decode(p)) for p in host.split(".") if p.startswith("xn--"))
    except (idna.IDNAError, UnicodeError):
        return False


def check_request(request: httpx.Request) -> None:
    """Raises Blocked unless the request may be sent: its URL, its method, and its Host header."""
    check(request.url)
    if request.method not in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        raise Blocked(f"method {request.method[:20]!r} may not be called")
    hosts = request.headers.get_list("host")
    if hosts != [request.url.netloc.decode("ascii")]:
        raise Blocked("the Host header must be the host of the URL")
    if "upgrade" in request.headers:
        raise Blocked("a call may not ask for another protocol")


def onward(before: httpx.Request, after: httpx.Request) -> httpx.Request:
    """The request that follows a redirect, with nothing in it that another host may not see.

    Raises Blocked where the redirect leads from https to http, or would hand a body to another
    host.
    """
    old, new = before.url, after.url
    check(new)
    if old.scheme == "https" and new.scheme != "https":
        raise Blocked("a redirect from https to http is not followed")
    if _is_same_host(old, new):
        return after
    if after.method not in ("GET", "HEAD"):
        raise Blocked("a redirect that would send the body to another host is not followed")
    kept = [(k, v) for k, v in after.headers.items() if k in _KEPT_ACROSS_HOSTS]
    return httpx.Request(after.method, new, headers=kept, extensions=after.extensions)


def _is_same_host(old: httpx.URL, new: httpx.URL) -> bool:
    ports = (_port(old), _port(new))
    return old.raw_host == new.raw_host and (ports[0] == ports[1] or ports == (80, 443))
