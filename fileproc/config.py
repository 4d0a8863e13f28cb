"""Settings of the app: ``FILEPROC`` of Django's settings, and the limits that are fixed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

FILES_LIMIT = 500
"""Files of one manifest, or of one bulk confirmation."""
NAME_LIMIT = 255
"""Bytes of a file name."""
METADATA_LIMIT = 4096
"""Bytes of a file's metadata, as JSON."""
PAGES_LIMIT = 2000
CHUNKS_LIMIT = 5000
CHUNK_RANGE = (32, 2000)
"""Tokens of a chunk that a batch may ask for."""
TEXT_LIMIT = 20_000_000
PICTURE_BYTES = 30 * 1024**2
"""Size of the largest picture."""
URL_LIFETIME = timedelta(minutes=60)
BATCH_LIFETIME = timedelta(hours=24)
IDLE_BATCH = timedelta(hours=1)
"""A batch without an upload for so long does not count as open."""
REMOTE = ("openai", "azure")
INDEXES = ("postgres", "azure")
EMBEDDERS = ("auto", "minilm", "none", *REMOTE)
MOST_DIMENSIONS = 4000
"""Of a vector that pgvector can index at half precision."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key of ``FILEPROC``, with its default."""

    EMBEDDER: str = "auto"
    """``minilm``, ``none``, ``openai``, ``azure``, or ``auto``: MiniLM where it is installed."""
    EMBEDDER_URL: str = ""
    """Where the model of another host is: ``https://api.openai.com/v1``, a resource of Azure."""
    EMBEDDER_MODEL: str = "text-embedding-3-small"
    """The name of that model; with Azure, that of its deployment."""
    EMBEDDER_KEY: str = field(default="", repr=False)
    EMBEDDER_DIMENSIONS: int = 1536
    EMBEDDER_API_VERSION: str = "2024-10-21"
    """Of Azure."""
    EMBEDDER_RATE: str = "500/m"
    """Calls of all workers."""
    INDEX: str = "postgres"
    """Where vectors are looked up: ``postgres``, or ``azure`` for Azure AI Search."""
    INDEX_URL: str = ""
    """Where that service is: ``https://papers.search.windows.net``."""
    INDEX_NAME: str = "documents"
    """How the names of its indexes begin, of which each model has one."""
    INDEX_KEY: str = field(default="", repr=False)
    """An admin key of the service."""
    INDEX_API_VERSION: str = "2024-07-01"
    INDEX_RATE: str = "600/m"
    """Calls of all workers that store or delete."""
    CHUNK_TOKENS: int = 0
    """Tokens of a chunk; 0: 200 with MiniLM, else 512."""
    CHUNK_OVERLAP: int = -1
    """Tokens that two chunks share; -1: 30 with MiniLM, else 50."""
    PERMANENT_ATTEMPTS: int = 3
    """Attempts at a file that cannot be read; 1 is enough, since the file stays the same."""
    CONCURRENCY: Mapping[str, int] = field(
        default_factory=lambda: {"extract": 8, "chunk": 5, "embed": 5}
    )
    """Jobs of each stage at once, over the whole fleet."""
    RATES: Mapping[str, str] = field(
        default_factory=lambda: {"extract": "100/m", "chunk": "50/m", "embed": "50/m"}
    )
    """Starts of each stage; an idle stage may use up a minute's worth at once."""
    ATTEMPTS: Mapping[str, int] = field(
        default_factory=lambda: {"extract": 3, "chunk": 3, "embed": 3}
    )
    """Attempts at each stage."""
    BACKOFF: Mapping[str, int] = field(
        default_factory=lambda: {"extract": 5, "chunk": 3, "embed": 3}
    )
    """Seconds until the second attempt; each later pause is twice as long."""
    TIMEOUTS: Mapping[str, int] = field(
        default_factory=lambda: {"extract": 300, "chunk": 60, "embed": 90}
    )
    """Seconds of an attempt; one that embeds has at least 0.1 seconds for each chunk."""
    OWNER_EXTRACTS: int = 4
    """Extractions of one owner at once."""
    OWNER_EMBEDS: int = 3
    """Documents of one owner that are embedded at once."""
    FILE_BYTES: int = 100 * 1024**2
    """Size of the largest file."""
    QUOTA_BYTES: int = 10 * 1024**3
    """Bytes of all files of one owner, unless his quota says otherwise."""
    QUOTA_BATCHES: int = 50
    """Open batches of one owner, unless his quota says otherwise."""
    IMPORT_S3: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Whose buckets are imported; empty: those of the server that the files are stored on."""

    @property
    def secret(self) -> str:
        """Return the key of the model, without the end of the line of a file."""
        return self.EMBEDDER_KEY.strip()


_KEYS = {f.name: f for f in fields(Settings)}
IMPORT_KEYS = {"ENDPOINT", "REGION", "KEY_ID", "SECRET"}
STAGES = ("extract", "chunk", "embed")
PER_STAGE = ("CONCURRENCY", "ATTEMPTS", "BACKOFF", "TIMEOUTS")


def parse(raw: object) -> Settings:
    """Validate the settings; raise ImproperlyConfigured that names the key."""
    if not isinstance(raw, Mapping):
        raise ImproperlyConfigured(f"FILEPROC must be a dict, got {type(raw).__name__}")
    for key in raw:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key).upper(), _KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ImproperlyConfigured(f"FILEPROC has no key {key!r}{hint}")
    given = dict(raw)
    for name in (*PER_STAGE, "RATES"):
        if name in given:
            given[name] = _per_stage(name, given[name])
    found = Settings(**given)
    for problem in _problems(found):
        raise ImproperlyConfigured(problem)
    return found


def _per_stage(name: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or set(given) - set(STAGES):
        raise ImproperlyConfigured(f"FILEPROC[{name!r}] must be a dict with keys of {STAGES}")
    return {**getattr(Settings(), name), **given}


def _problems(s: Settings) -> list[str]:
    found = []
    if s.EMBEDDER not in EMBEDDERS:
        found.append(f"FILEPROC['EMBEDDER'] must be one of {', '.join(EMBEDDERS)}")
    least = {
        "CHUNK_TOKENS": 0, "CHUNK_OVERLAP": -1, "PERMANENT_ATTEMPTS": 1, "OWNER_EXTRACTS": 1,
        "OWNER_EMBEDS": 1, "EMBEDDER_DIMENSIONS": 1,
        "FILE_BYTES": 1, "QUOTA_BYTES": 0, "QUOTA_BATCHES": 0,
    }  # fmt: skip
    numbers: dict[str, Any] = {name: getattr(s, name) for name in least}
    for name in PER_STAGE:
        numbers |= {f"{name}.{stage}": n for stage, n in getattr(s, name).items()}
    for name, value in numbers.items():
        floor = least.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < floor:
            found.append(f"FILEPROC[{name!r}] must be a whole number of at least {floor}")
    if s.IMPORT_S3 and (not isinstance(s.IMPORT_S3, Mapping) or set(s.IMPORT_S3) != IMPORT_KEYS):
        found.append(f"FILEPROC['IMPORT_S3'] must have {', '.join(sorted(IMPORT_KEYS))}")
    if not found and s.CHUNK_TOKENS and s.CHUNK_OVERLAP >= s.CHUNK_TOKENS:
        found.append("FILEPROC['CHUNK_OVERLAP'] must be less than CHUNK_TOKENS")
    found += _remote_problems(s) if s.EMBEDDER in REMOTE else []
    found += _index_problems(s)
    rates = {f"RATES[{stage!r}]": rate for stage, rate in s.RATES.items()}
    rates |= {"EMBEDDER_RATE": s.EMBEDDER_RATE, "INDEX_RATE": s.INDEX_RATE}
    for name, rate in rates.items():
        if not re.fullmatch(r"[1-9]\d{0,5}/\d*[smhd]", str(rate)):
            found.append(f"{name} of FILEPROC must be like '100/m'")
    return found


def _remote_problems(s: Settings) -> list[str]:
    found = []
    if not s.EMBEDDER_URL.startswith(("https://", "http://")):
        found.append("FILEPROC['EMBEDDER_URL'] must begin with https:// or http://")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,44}", s.EMBEDDER_MODEL):
        found.append("FILEPROC['EMBEDDER_MODEL'] must be the name of a model")
    if s.EMBEDDER_DIMENSIONS > MOST_DIMENSIONS:
        found.append(f"FILEPROC['EMBEDDER_DIMENSIONS'] may be {MOST_DIMENSIONS} at most")
    if s.EMBEDDER == "azure" and not s.secret:
        found.append("FILEPROC['EMBEDDER_KEY'] is needed for Azure")
    return found


def _index_problems(s: Settings) -> list[str]:
    found = []
    if s.INDEX not in INDEXES:
        found.append(f"FILEPROC['INDEX'] must be one of {', '.join(INDEXES)}")
    if s.INDEX_URL and not s.INDEX_URL.startswith(("https://", "http://")):
        found.append("FILEPROC['INDEX_URL'] must begin with https:// or http://")
    if (
        not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?", s.INDEX_NAME)
        or "--" in s.INDEX_NAME
    ):
        found.append(
            "FILEPROC['INDEX_NAME'] must have up to 62 small letters, digits and single dashes"
        )
    if s.INDEX == "azure":
        for name in ("INDEX_URL", "INDEX_KEY"):
            if not getattr(s, name).strip():
                found.append(f"FILEPROC[{name!r}] is needed for Azure AI Search")
        if s.EMBEDDER == "none":
            found.append("FILEPROC['INDEX'] needs an EMBEDDER: words are looked up in PostgreSQL")
    return found


_current: Settings | None = None


def settings() -> Settings:
    """Return the current settings."""
    global _current
    if _current is None:
        _current = parse(getattr(django_settings, "FILEPROC", {}))
    return _current


def _forget(*, setting: str, **_: object) -> None:
    global _current
    if setting == "FILEPROC":
        _current = None


setting_changed.connect(_forget)
