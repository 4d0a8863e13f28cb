"""Settings from environment variables; a wrong one ends the program with one clear line."""

import base64
import os
import secrets
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, TypeVar
from urllib.parse import unquote, urlsplit

from config import embedded
from config.addresses import BadAddress, DatabaseAddress, parse_database_url, parse_redis_url
from config.embedded.places import data_folder

Parsed = TypeVar("Parsed")

YES = ("1", "true", "yes", "on")
NO = ("0", "false", "no", "off")

# What never talks to a server. Everything else gets servers without asking.
SERVERLESS = {"help", "version", "makemessages", "compilemessages", "diffsettings"}


def fail(variable: str, reason: str) -> NoReturn:
    """The program has ended with exit code 2 and one line that names the variable."""
    sys.stderr.write(f"{variable}: {' '.join(reason.split())}\n")
    raise SystemExit(2)


def flag(variable: str, default: bool) -> bool:
    text = os.environ.get(variable, "").strip().lower()
    if text in YES:
        return True
    if text in NO:
        return False
    if text:
        fail(variable, f"must be one of {', '.join(YES + NO)}")
    return default


def choice(variable: str, choices: tuple[str, ...]) -> str:
    """One of the choices; the first where nothing is given."""
    text = os.environ.get(variable, "").strip().lower() or choices[0]
    if text not in choices:
        fail(variable, f"must be one of {', '.join(choices)}")
    return text


def words(variable: str, default: list[str]) -> list[str]:
    text = os.environ.get(variable, "")
    return [word.strip() for word in text.split(",") if word.strip()] or default


def servers(arguments: list[str]) -> tuple[DatabaseAddress, str]:
    """The database and the Redis URL: those of the environment, else embedded ones."""
    given = {"postgres": _given("DATABASE_URL"), "valkey": _given("REDIS_URL")}
    missing = [kind for kind, url in given.items() if not url]
    own: dict[str, str] = {}
    if missing:
        try:
            own = embedded.hold(*missing) if needs_servers(arguments) else embedded.addresses()
        except (embedded.EmbeddedError, OSError) as error:
            fail(" and ".join(_VARIABLES[kind] for kind in missing), f"not set, and {error}")
    database = _parse("DATABASE_URL", given["postgres"] or own["postgres"], parse_database_url)
    redis = _parse("REDIS_URL", given["valkey"] or own["valkey"], parse_redis_url)
    return database, redis


def needs_servers(arguments: list[str]) -> bool:
    """False only for commands that surely need none."""
    program, *rest = [Path(arguments[0]).name, *arguments[1:]] if arguments else ["python"]
    if "mypy" in program:  # its Django plugin imports the settings
        return False
    if program not in ("manage.py", "django-admin"):
        return True
    return bool(rest) and rest[0] not in SERVERLESS and not {"-h", "--help", "--version"} & {*rest}


def pool(arguments: list[str]) -> dict[str, object]:
    """What the database is told of a pool of connections: the web server's, of DATABASE_POOL.

    Each of its requests has a thread of its own, which would open a connection of its own.
    """
    program = Path(arguments[0]).name if arguments else ""
    if [program, *arguments[1:3]] != ["manage.py", "jobs", "web"]:
        return {}
    size = os.environ.get("DATABASE_POOL", "16")
    if not (size.isascii() and size.isdigit() and int(size) <= 1000):
        fail("DATABASE_POOL", f"must be a number of connections, or 0 for no pool, got {size!r}")
    found = int(size) and find_spec("psycopg_pool")
    return {"pool": {"min_size": 1, "max_size": int(size), "timeout": 10}} if found else {}


def secret_key(data: Path, required: bool) -> str:
    """SECRET_KEY, or for development one that was made up once and kept in the data folder."""
    key = os.environ.get("SECRET_KEY", "")
    if key:
        return key
    if required:
        fail("SECRET_KEY", "must be set when DEBUG is off and DATABASE_URL is set")
    try:
        return _kept_secret(data_folder(data) / "secret_key")
    except (embedded.EmbeddedError, OSError) as error:
        fail("SECRET_KEY", f"not set, and {error}")


def protection_keys(data: Path, make_up: bool) -> dict[str, object]:
    """KEYS and INDEX_KEY of ``JOBS``: those of JOBS_KEYS (``id=key,…``) and JOBS_INDEX_KEY.

    Without them, where ``make_up`` allows it, keys that were made up once and kept in the data
    folder. Otherwise nothing: whatever needs a key says so when it starts.
    """
    keys = {}
    for word in words("JOBS_KEYS", []):
        name, _, key = word.partition("=")
        if not key:
            fail("JOBS_KEYS", "must be like id=key,olderid=olderkey")
        keys[name] = key
    index = os.environ.get("JOBS_INDEX_KEY", "")
    if make_up and not keys and not index:
        try:
            folder = data_folder(data)
            keys = {"local": _kept_secret(folder / "key", _fresh_key)}
            index = _kept_secret(folder / "index_key", _fresh_key)
        except (embedded.EmbeddedError, OSError) as error:
            fail("JOBS_KEYS", f"not set, and {error}")
    found: dict[str, object] = {"KEYS": keys} if keys else {}
    return {**found, "INDEX_KEY": index} if index else found


def email(extra: str) -> dict[str, object]:
    """``EMAILGW``: providers by SMTP_URL (``smtp://user:password@host:port``, or ``smtps``) and
    SES_REGION; nothing where the package of the ``extra`` is not installed."""
    if find_spec(extra) is None:
        return {}
    providers: dict[str, object] = {}
    if url := os.environ.get("SMTP_URL", ""):
        providers["smtp"] = {"OPTIONS": _smtp_options(url)}
    if region := os.environ.get("SES_REGION", ""):
        client: dict[str, object] = {"region_name": region}
        if endpoint := os.environ.get("SES_ENDPOINT", ""):
            client["endpoint_url"] = endpoint
        options: dict[str, object] = {"client_params": client}
        if name := os.environ.get("SES_CONFIGURATION_SET", ""):
            options["configuration_set_name"] = name
        providers["ses"] = {
            "BACKEND": "anymail.backends.amazon_ses.EmailBackend",
            "OPTIONS": options,
        }
    found: dict[str, object] = {"PROVIDERS": providers}
    if name := os.environ.get("EMAIL_PROVIDER", ""):
        if name not in providers:
            fail("EMAIL_PROVIDER", f"is {name!r}, which neither SMTP_URL nor SES_REGION set up")
        found["PROVIDER"] = name
    return {**found, "SNS_TOPICS": words("SNS_TOPICS", [])}


def _smtp_options(url: str) -> dict[str, object]:
    parts = urlsplit(url)
    try:
        port = parts.port or (465 if parts.scheme == "smtps" else 25)
    except ValueError:
        fail("SMTP_URL", "has a port that is no number")
    if parts.scheme not in ("smtp", "smtps", "smtp+starttls") or not parts.hostname:
        fail("SMTP_URL", "must be like smtp://user:password@host:25, smtp+starttls:// or smtps://")
    return {
        "host": parts.hostname,
        "port": port,
        "username": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "use_ssl": parts.scheme == "smtps",
        "use_tls": parts.scheme == "smtp+starttls",
    }


def _fresh_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _fresh_secret() -> str:
    return secrets.token_urlsafe(50)


def _kept_secret(path: Path, fresh_value: Callable[[], str] = _fresh_secret) -> str:
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(fresh_value())
        try:
            os.link(fresh, path)  # the first of two processes wins, and both read its key
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text().strip()


_VARIABLES = {"postgres": "DATABASE_URL", "valkey": "REDIS_URL"}


def _given(variable: str) -> str:
    return os.environ.get(variable, "")


def _parse(variable: str, url: str, parse: Callable[[str], Parsed]) -> Parsed:
    try:
        return parse(url)
    except BadAddress as error:
        fail(variable, str(error))
