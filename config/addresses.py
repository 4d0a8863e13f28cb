"""Server addresses as URLs: DATABASE_URL and REDIS_URL taken apart, or refused with a reason."""

import difflib
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
DATABASE_OPTIONS = (
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "options",
    "passfile",
    "require_auth",
    "service",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
)
LONGEST_SOCKET_PATH = 103  # what macOS allows; Linux allows 107


class BadAddress(ValueError):
    """Why a URL cannot be used; never holds the URL, which may contain a password."""


@dataclass(frozen=True)
class DatabaseAddress:
    name: str
    user: str = ""
    password: str = field(default="", repr=False)
    host: str = ""
    port: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def as_django(self) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": self.name,
            "USER": self.user,
            "PASSWORD": self.password,
            "HOST": self.host,
            "PORT": self.port,
            "OPTIONS": dict(self.options),
        }


def parse_database_url(text: str) -> DatabaseAddress:
    """postgresql://user:password@host:port/name?sslmode=..., or ?host=/folder/of/the/socket."""
    url = _split(text)
    if url.scheme not in ("postgresql", "postgres"):
        raise BadAddress(f"must begin with postgresql://, not {_scheme(url)}")
    if url.fragment:
        raise BadAddress("has a #; write %23 when it belongs to the password")
    user, password, host, port = _authority(url.netloc)
    options = _query(url.query)
    host = options.pop("host", host)
    port = options.pop("port", port)
    user = options.pop("user", user)
    password = options.pop("password", password)
    name = options.pop("dbname", _decode(url.path.removeprefix("/")))
    if not name:
        raise BadAddress("names no database: postgresql://user:password@host:5432/NAME")
    if "/" in name:
        raise BadAddress("has a / in the database name; write a socket folder as ?host=/folder")
    _check_socket(host, "/.s.PGSQL.65535")
    _check_ports(port)
    _check_database_options(options)
    return DatabaseAddress(name, user, password, host, port, options)


def parse_redis_url(text: str) -> str:
    """The URL as redis-py takes it: redis://, rediss:// or unix:///path/of/the/socket?db=0."""
    url = _split(text)
    if url.fragment:
        raise BadAddress("has a #; write %23 when it belongs to the password")
    options = _query(url.query)
    if url.scheme == "unix":
        if _authority(url.netloc)[2] or not url.path.startswith("/"):
            raise BadAddress("must name the socket: unix:///path/of/the/socket?db=0")
        _check_socket(_decode(url.path), "")
        _check_db(options.get("db", "0"))
    elif url.scheme in ("redis", "rediss"):
        _, _, host, port = _authority(url.netloc)
        if not host:
            raise BadAddress(f"names no host: {url.scheme}://host:6379/0")
        _check_ports(port)
        _check_db(options.get("db", url.path.strip("/") or "0"))
    else:
        raise BadAddress(f"must begin with redis://, rediss:// or unix://, not {_scheme(url)}")
    return text


def _split(text: str) -> SplitResult:
    if text != text.strip() or any(not char.isprintable() for char in text):
        raise BadAddress("has a blank or an unprintable character at an end or inside")
    try:
        return urlsplit(text)
    except ValueError as error:
        raise BadAddress(f"is not a URL: {error}") from None


def _scheme(url: SplitResult) -> str:
    return f"{url.scheme}:" if url.scheme else "a URL without ://"


def _authority(netloc: str) -> tuple[str, str, str, str]:
    """User, password, host and port; a host may be [IPv6] or a %2F-encoded socket folder."""
    login, _, place = netloc.rpartition("@")
    user, _, password = login.partition(":")
    if place.startswith("["):
        host, closed, rest = place[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise BadAddress("has an IPv6 address that is not written [address]:port")
        port = rest.removeprefix(":")
    else:
        host, _, port = place.partition(":")
        if ":" in port:
            raise BadAddress("has several colons after the host; write IPv6 as [address]:port")
    return _decode(user), _decode(password), _decode(host), port


def _decode(text: str) -> str:
    for tail in text.split("%")[1:]:
        if len(tail) < 2 or not all(char in "0123456789abcdefABCDEF" for char in tail[:2]):
            raise BadAddress("has a % that is not followed by two hexadecimal digits; write %25")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise BadAddress("has a percent-encoding that is not UTF-8") from None


def _query(query: str) -> dict[str, str]:
    # "+" stays: unlike a form, a connection URL has no other spelling for it.
    try:
        pairs = parse_qsl(
            query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=bool(query)
        )
    except ValueError:
        raise BadAddress("has options that are not written ?name=value&name=value") from None
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise BadAddress(f"gives the option {name} twice")
    return dict(pairs)


def _check_ports(ports: str) -> None:
    for port in filter(None, ports.split(",")):
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise BadAddress("has a port that is not a number from 1 to 65535")


def _check_db(db: str) -> None:
    if not (db.isascii() and db.isdigit()):
        raise BadAddress("has a database that is not a number")


def _check_socket(path: str, suffix: str) -> None:
    if path.startswith("/") and len(path.encode() + suffix.encode()) > LONGEST_SOCKET_PATH:
        raise BadAddress(f"has a socket path longer than {LONGEST_SOCKET_PATH} bytes")


def _check_database_options(options: dict[str, str]) -> None:
    for name in options:
        if name not in DATABASE_OPTIONS:
            near = difflib.get_close_matches(name, (*DATABASE_OPTIONS, "host", "port"), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadAddress(f"has the unknown option {name}{hint}")
    mode = options.get("sslmode", "prefer")
    if mode not in SSL_MODES:
        near = difflib.get_close_matches(mode, SSL_MODES, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadAddress(
            f"has the unknown sslmode {mode!r}, not one of {', '.join(SSL_MODES)}{hint}"
        )
    timeout = options.get("connect_timeout", "0")
    if not (timeout.isascii() and timeout.isdigit()):
        raise BadAddress("has a connect_timeout that is not a number of seconds")
