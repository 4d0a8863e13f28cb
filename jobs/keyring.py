"""The key ring: values sealed with AES-256-GCM so that they open only where they belong.

A sealed value is text, ``enc1.<key id>.<base64 of nonce, ciphertext and tag>``. Table, column, row
and tenant are authenticated with it: moved anywhere else, it does not open. Each tenant has a key
of its own, derived from the key of the ring. ``python -m jobs.newkey`` makes a new key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from jobs import conf
from jobs.errors import ConfigError, SealError, UnknownKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORMAT = "enc1"
KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")
_SEALED = re.compile(rf"{FORMAT}\.([A-Za-z0-9_-]{{1,32}})\.([A-Za-z0-9_-]+)\Z")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed value belongs."""

    table: str
    column: str
    row: str
    tenant: str = ""

    def at(self, column: str) -> Place:
        """Another column of the same row."""
        return Place(self.table, column, self.row, self.tenant)

    def text(self) -> bytes:
        """The place as authenticated; no two places share it."""
        return json.dumps([FORMAT, self.table, self.column, self.row, self.tenant]).encode()

    def __str__(self) -> str:
        return f"{self.table}.{self.column} of row {self.row}"


class KeyRing:
    """Keys by their ids; the first one seals, all of them open."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = dict(keys)
        self.current = next(iter(self._keys))
        self._cipher = lru_cache(maxsize=4096)(self._make_cipher)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._keys)})"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all keys, the current one first."""
        return tuple(self._keys)

    def seal(self, clear: bytes, place: Place) -> str:
        """The value, sealed for its place with the current key."""
        nonce = os.urandom(NONCE_BYTES)
        box = self._cipher(self.current, place.tenant).encrypt(nonce, clear, place.text())
        packed = base64.urlsafe_b64encode(nonce + box).rstrip(b"=").decode()
        return f"{FORMAT}.{self.current}.{packed}"

    def open(self, sealed: str, place: Place) -> bytes:
        """The value in clear; raises a SealError where it was not sealed for this very place."""
        from cryptography.exceptions import InvalidTag

        found = _SEALED.match(sealed)
        if found is None:
            raise SealError(f"{place}: what is stored is no sealed value")
        key_id, packed = found.groups()
        if key_id not in self._keys:
            raise UnknownKey(key_id, str(place))
        try:
            raw = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        except (ValueError, binascii.Error):
            raw = b""
        if len(raw) < NONCE_BYTES + TAG_BYTES:
            raise SealError(f"{place}: the sealed value is cut off")
        cipher = self._cipher(key_id, place.tenant)
        try:
            return cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], place.text())
        except InvalidTag:
            raise SealError(
                f"{place}: the sealed value does not open: it was changed, or belongs to another "
                f"row, column or tenant, or key {key_id!r} is not the one it was sealed with"
            ) from None

    def _make_cipher(self, key_id: str, tenant: str) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        label = b"jobdesk aes-256-gcm\0" + tenant.encode()
        return AESGCM(hmac.digest(self._keys[key_id], label, hashlib.sha256))


def key_id(sealed: str) -> str:
    """The id of the key that a value was sealed with; raises a SealError for other texts."""
    found = _SEALED.match(sealed)
    if found is None:
        raise SealError("this is no sealed value")
    return found[1]


_current: tuple[conf.Settings, KeyRing] | None = None
_current_index: tuple[conf.Settings, bytes] | None = None


def ring() -> KeyRing:
    """The key ring of the settings; raises a ConfigError that says what is wrong with it."""
    global _current
    settings = conf.settings()
    if _current is None or _current[0] is not settings:
        _current = settings, _load(settings.KEYS)
    return _current[1]


def index_key() -> bytes:
    """The key of blind indexes; raises a ConfigError where there is none."""
    global _current_index
    settings = conf.settings()
    if _current_index is None or _current_index[0] is not settings:
        if not settings.INDEX_KEY:
            raise ConfigError("JOBS['INDEX_KEY'] is missing, and blind indexes need it; " + _MAKE)
        _current_index = settings, _key("JOBS['INDEX_KEY']", settings.INDEX_KEY)
    return _current_index[1]


_MAKE = "python -m jobs.newkey makes a key"


def _load(specs: Mapping[str, object]) -> KeyRing:
    try:
        import cryptography as cryptography
    except ImportError:
        raise ConfigError(
            "protected values need the package cryptography: pip install 'django-jobdesk[privacy]'"
        ) from None
    if not specs:
        raise ConfigError("JOBS['KEYS'] is missing, and protected values need it; " + _MAKE)
    keys: dict[str, bytes] = {}
    for name, spec in specs.items():
        if not isinstance(name, str) or not _KEY_ID.match(name):
            raise ConfigError("JOBS['KEYS']: a key id must be 1 to 32 of A-Z a-z 0-9 - and _")
        key = _key(f"JOBS['KEYS'][{name!r}]", spec)
        for other, known in keys.items():
            if hmac.compare_digest(known, key):
                raise ConfigError(f"JOBS['KEYS']: {name!r} and {other!r} are the same key")
        keys[name] = key
    return KeyRing(keys)


def _key(name: str, spec: object) -> bytes:
    """The key that the setting means. Its messages never show what may be a key."""
    if not isinstance(spec, str):
        raise ConfigError(f"{name} must be text, got {type(spec).__name__}")
    how, _, rest = spec.partition(":")
    text = spec
    if how == "env":
        if not (text := os.environ.get(rest, "")):
            raise ConfigError(f"{name}: the environment variable {rest} is not set")
    elif how == "file":
        try:
            text = Path(rest).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{name}: {rest} cannot be read ({type(error).__name__})") from None
    text = text.strip().rstrip("=").replace("+", "-").replace("/", "_")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise ConfigError(f"{name} is not base64; {_MAKE}") from None
    if len(key) != KEY_BYTES:
        raise ConfigError(f"{name} has {len(key)} bytes instead of {KEY_BYTES}; {_MAKE}")
    return key


def blind_index(value: str, purpose: str, tenant: str = "") -> str:
    """64 hex digits by which an exact value is found again, and from which nobody gets it back.

    The same value has another index for every purpose and every tenant.
    """
    if not purpose:
        raise ValueError("blind_index: say the purpose, like 'customer.cpf'")
    if not isinstance(value, str):
        raise TypeError(f"blind_index: the value must be text, got {type(value).__name__}")
    text = json.dumps(["index", purpose, tenant, value]).encode()
    return hmac.digest(index_key(), text, hashlib.sha256).hex()


def job_place(job_id: UUID, tenant: str) -> Place:
    """Where the payload of a job belongs."""
    return Place("jobs_job", "payload", str(job_id), tenant)
