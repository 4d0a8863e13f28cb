"""Settings from environment variables; a wrong one ends the program with one clear line."""

import base64
import os
import re
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
from jobs import conf
from jobs.errors import ConfigError

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


LEVELS = ("debug", "info", "warning", "error", "critical")


def log_level() -> str:
    """Return LOG_LEVEL, from which on lines are written."""
    level = os.environ.get("LOG_LEVEL", "").strip().lower() or "info"
    if level not in LEVELS:
        fail("LOG_LEVEL", f"must be one of {', '.join(LEVELS)}")
    return level.upper()


def at_least(level: str, floor: str) -> str:
    """Return the higher one of two levels of logging."""
    return max(level, floor, key=lambda one: LEVELS.index(one.lower()))


def words(variable: str, default: list[str]) -> list[str]:
    text = os.environ.get(variable, "")
    return [word.strip() for word in text.split(",") if word.strip()] or default


def jobs_settings() -> dict[str, object]:
    """Return what the environment says of ``JOBS``; a wrong value is named by its variable."""
    found: dict[str, object] = {}
    if networks := words("HTTP_ALLOW", []):
        found["HTTP_ALLOW"] = networks
    if os.environ.get("WEBHOOKS"):
        found["WEBHOOKS"] = flag("WEBHOOKS", default=False)
    if token := os.environ.get("METRICS_TOKEN", ""):
        found["METRICS_TOKEN"] = token
    if rates := words("API_RATES", []):
        found["API_RATES"] = {**conf.Settings().API_RATES, **dict(map(_rate, rates))}
    if proxies := os.environ.get("API_PROXIES", ""):
        if not (proxies.isascii() and proxies.isdigit()):
            fail("API_PROXIES", f"must be a number of proxies, got {proxies!r}")
        found["API_PROXIES"] = int(proxies)
    for name, value in found.items():
        try:
            conf.parse({name: value})
        except ConfigError as error:
            told = str(error).replace(f"JOBS[{name!r}]", "", 1).lstrip(": ")
            fail(name, re.sub(r"^\['(\w+)'\]", r"\1", told))
    return found


def _rate(word: str) -> tuple[str, str]:
    name, _, rate = word.partition("=")
    if not rate:
        fail("API_RATES", f"must be like read=600/m,write=300/m,refused=30/m, got {word!r}")
    return name.strip(), rate.strip()


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


def operations(extra: str) -> dict[str, object]:
    """``OPERATIONS``: the address of the ERP by ERP_URL; nothing where the package of the
    ``extra`` is not installed."""
    if find_spec(extra) is None:
        return {}
    found: dict[str, object] = {"ERP_URL": os.environ.get("ERP_URL", "").rstrip("/")}
    if folder := os.environ.get("ERP_EXPORTS", ""):
        found["EXPORTS"] = folder
    return found


def email(extra: str, folder: Path | None = None) -> dict[str, object]:
    """``EMAILGW``: providers by SMTP_URL (``smtp://user:password@host:port``, or ``smtps``) and
    SES_REGION; without them, files in the folder. Nothing where the package of the ``extra`` is not
    installed."""
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
    if folder is not None and not providers:
        providers["files"] = {
            "BACKEND": "django.core.mail.backends.filebased.EmailBackend",
            "OPTIONS": {"file_path": str(folder / "mail")},
        }
    found: dict[str, object] = {"PROVIDERS": providers}
    if name := os.environ.get("EMAIL_PROVIDER", ""):
        if name not in providers:
            fail("EMAIL_PROVIDER", f"is {name!r}, which neither SMTP_URL nor SES_REGION set up")
        found["PROVIDER"] = name
    return {**found, "SNS_TOPICS": words("SNS_TOPICS", [])}


def publisher() -> dict[str, object]:
    """``PUBLISHER``: where this project is, and its clients at the providers."""
    names = (
        "PUBLIC_URL",
        *("META_APP_ID", "META_APP_SECRET"),
        *("GOOGLE_CLIENT_ID", "GOOGLE_CLIENT_SECRET"),
        *("TIKTOK_CLIENT_KEY", "TIKTOK_CLIENT_SECRET"),
        *("LINKEDIN_CLIENT_ID", "LINKEDIN_CLIENT_SECRET", "LINKEDIN_VERSION"),
        *("X_CLIENT_ID", "X_CLIENT_SECRET"),
    )
    return {name: value for name in names if (value := os.environ.get(name, ""))}


def trading() -> dict[str, object]:
    """``TRADING``, by its own names; nothing where the packages of the extra are not installed."""
    if any(find_spec(name) is None for name in ("numpy", "jwt", "cryptography")):
        return {}
    key_id, secret = os.environ.get("AI_HMAC_KEY_ID", ""), _secret("AI_HMAC_SECRET")
    found: dict[str, object] = {
        "AI_BASE_URL": os.environ.get("AI_BASE_URL", ""),
        "AI_HMAC_KEY_ID": key_id,
        "AI_HMAC_SECRET": secret,
        "AI_KEYS": {key_id: secret} if key_id and secret else {},
        **{name: flag(name, default=False) for name in (
            "HEURISTICS_ONLY", "FEATURE_BINANCE", "FEATURE_VENDOR_FALLBACK",
        )},
        **{name: _secret(name) for name in ("COINBASE_CLIENT_SECRET", "VENDOR_API_KEY")},
    }  # fmt: skip
    for name in (
        *("COINBASE_URL", "COINBASE_LOGIN_URL", "COINBASE_CLIENT_ID", "COINBASE_REDIRECT_URI"),
        *("BINANCE_URL", "VENDOR_URL"),
    ):
        if text := os.environ.get(name, ""):
            found[name] = text
    for name in (
        *("AI_TIMEOUT_MS", "BROKER_RATE_LIMIT_SAFETY_MS", "WORKER_CONCURRENCY_IMPORT"),
        *("WORKER_CONCURRENCY_SCORE", "WORKER_CONCURRENCY_SIM", "WORKER_CONCURRENCY_DIGEST"),
    ):
        if text := os.environ.get(name, ""):
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                fail(name, f"must be a whole number, got {text!r}")
            found[name] = int(text)
    return found


def _secret(variable: str) -> str:
    """Return a secret: the variable's, or the content of the file that ``…_FILE`` names."""
    path = os.environ.get(f"{variable}_FILE", "")
    if not path:
        return os.environ.get(variable, "")
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeError):
        fail(f"{variable}_FILE", f"cannot be read: {path!r}")


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


def blobs(folder: Path) -> dict[str, str]:
    """Return the store of blobs: a bucket of S3, or else a folder next to the other data."""
    given = {
        "ENDPOINT": os.environ.get("S3_ENDPOINT", ""), "BUCKET": os.environ.get("S3_BUCKET", ""),
        "KEY_ID": _secret("S3_ACCESS_KEY"), "SECRET": _secret("S3_SECRET_KEY"),
    }  # fmt: skip
    if not any(given.values()):
        return {"STORE": "local", "ROOT": os.environ.get("BLOB_ROOT") or str(folder / "blobs")}
    for name, value in given.items():
        if not value:
            variable = {"KEY_ID": "ACCESS_KEY", "SECRET": "SECRET_KEY"}.get(name, name)
            fail(f"S3_{variable}", "is needed where another variable of S3 is set")
    return {"STORE": "s3", "REGION": os.environ.get("S3_REGION") or "us-east-1", **given}


def documents(*packages: str) -> dict[str, object] | None:
    """``FILEPROC``: the model by EMBEDDER; None where a package of the extra is not installed."""
    if not all(find_spec(package) for package in packages):
        return None
    found: dict[str, object] = {
        "EMBEDDER": choice("EMBEDDER", ("auto", "minilm", "none", "openai", "azure")),
        "INDEX": choice("INDEX", ("postgres", "azure")),
    }
    for name in (
        *("EMBEDDER_URL", "EMBEDDER_MODEL", "EMBEDDER_API_VERSION", "EMBEDDER_RATE"),
        *("INDEX_URL", "INDEX_NAME", "INDEX_API_VERSION", "INDEX_RATE"),
    ):
        if text := os.environ.get(name, ""):
            found[name] = text
    if text := os.environ.get("EMBEDDER_DIMENSIONS", ""):
        found["EMBEDDER_DIMENSIONS"] = _whole("EMBEDDER_DIMENSIONS", text)
    if url := os.environ.get("IMPORT_S3_ENDPOINT", ""):
        found["IMPORT_S3"] = {
            "ENDPOINT": url, "REGION": os.environ.get("IMPORT_S3_REGION") or "us-east-1",
            "KEY_ID": _secret("IMPORT_S3_ACCESS_KEY"), "SECRET": _secret("IMPORT_S3_SECRET_KEY"),
        }  # fmt: skip
    for name in (
        *("CHUNK_TOKENS", "CHUNK_OVERLAP", "PERMANENT_ATTEMPTS", "OWNER_EXTRACTS", "OWNER_EMBEDS"),
        *("FILE_BYTES", "QUOTA_BYTES", "QUOTA_BATCHES"),
    ):
        if text := os.environ.get(f"FILEPROC_{name}", ""):
            found[name] = _whole(f"FILEPROC_{name}", text)
    for name in ("CONCURRENCY", "RATES", "ATTEMPTS", "BACKOFF", "TIMEOUTS"):
        if text := os.environ.get(f"FILEPROC_{name}", ""):
            found[name] = _of_stages(f"FILEPROC_{name}", text, is_rate=name == "RATES")
    for name in ("EMBEDDER_KEY", "INDEX_KEY"):
        if secret := _secret(name):
            found[name] = secret
    return found


def _whole(variable: str, text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        fail(variable, "must be a whole number")
    return int(text)


def _of_stages(variable: str, text: str, *, is_rate: bool) -> dict[str, object]:
    """Values of the stages of documents, as in ``extract=8,embed=2``."""
    found: dict[str, object] = {}
    for part in text.split(","):
        stage, equals, value = (one.strip() for one in part.partition("="))
        if stage not in ("extract", "chunk", "embed") or not equals:
            fail(variable, "must be like extract=8,chunk=5,embed=5")
        found[stage] = value if is_rate else _whole(variable, value)
    return found
