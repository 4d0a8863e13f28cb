"""A cache backend for Django in Redis that stores signed JSON and never unpickles.

::

    CACHES = {
        "default": {
            "BACKEND": "jobs.cache.RedisCache",
            "LOCATION": "redis://localhost:6379/1",
            "KEY_PREFIX": "shop",
        }
    }

Django's own backend unpickles the values it reads, so anyone who can write to Redis can run code.
Here every value has a MAC over its key and itself, made with ``SECRET_KEY``: a value that was
forged, changed or copied from another key is a miss.
"""

from __future__ import annotations

import hmac
import json
import re
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from django.conf import settings
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache

from jobs.engine import clients

_SALT = b"jobs.cache"
_MARK = b"j1"
"""Begins every value; another way to write them will have another."""
_MAC = 32
_PATIENCE = 5.0
"""Seconds for which a counter is tried to be moved on while others do so."""
_MISSING = object()
# Compare and set, keeping the time to live.
_SWAP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
"""


class RedisCache(BaseCache):
    """Holds what JSON can hold, as it was written; anything else is a TypeError."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._location = location

    @cached_property
    def _redis(self) -> Any:
        return clients.at(self._location)

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        """Return the value; the default where there is none, also where it was forged."""
        made = self.make_and_validate_key(key, version)
        found = _open(made, self._read(made))
        return default if found is _MISSING else found

    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        """Write the value."""
        made = self.make_and_validate_key(key, version)
        sealed, lifetime = _sealed(made, value), self._lifetime(timeout)
        if lifetime == 0:
            self._redis.delete(made)
        else:
            self._redis.set(made, sealed, px=lifetime)

    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        """Write the value if there is none; return whether it was written."""
        made = self.make_and_validate_key(key, version)
        sealed, lifetime = _sealed(made, value), self._lifetime(timeout)
        if lifetime == 0:
            return _open(made, self._read(made)) is _MISSING
        if self._redis.set(made, sealed, px=lifetime, nx=True):
            return True
        if _open(made, self._read(made)) is not _MISSING:
            return False
        self._redis.delete(made)  # it was forged
        return bool(self._redis.set(made, sealed, px=lifetime, nx=True))

    def get_many(self, keys: Iterable[Any], version: int | None = None) -> dict[Any, Any]:
        """Return the values that are there, by their keys."""
        made = {self.make_and_validate_key(key, version): key for key in keys}
        if not made:
            return {}
        found = zip(made, self._redis.mget(list(made)), strict=True)
        opened = ((one, _open(one, sealed)) for one, sealed in found)
        return {made[one]: value for one, value in opened if value is not _MISSING}

    def has_key(self, key: Any, version: int | None = None) -> bool:
        """Return whether there is a value."""
        return self.get(key, _MISSING, version) is not _MISSING

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        """Add to a whole number and return the sum, however many do so at once."""
        made = self.make_and_validate_key(key, version)
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            sealed = self._read(made)
            found = _open(made, sealed)
            if found is _MISSING:
                raise ValueError(f"Key {key!r} not found")
            if type(found) is not int:
                raise ValueError(f"Key {key!r} is no whole number")
            if self._redis.eval(_SWAP, 1, made, sealed, _sealed(made, found + delta)):
                return found + delta
        raise TimeoutError(f"Key {key!r} is changed by too many at once")

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Give the value another time to live; return whether there is one."""
        made, lifetime = self.make_and_validate_key(key, version), self._lifetime(timeout)
        if lifetime is None:
            return bool(self._redis.persist(made) or self._redis.exists(made))
        return bool(self._redis.pexpire(made, lifetime))

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Remove the value; return whether there was one."""
        return bool(self._redis.delete(self.make_and_validate_key(key, version)))

    def clear(self) -> None:
        """Remove everything below ``KEY_PREFIX``, and nothing else that is in that Redis."""
        below = re.sub(r"([\\*?\[\]])", r"\\\1", self.key_prefix) + ":*"
        for some in _thousands(self._redis.scan_iter(match=below, count=1000)):
            self._redis.unlink(*some)

    def _read(self, key: str) -> bytes | None:
        try:
            found: bytes | None = self._redis.get(key)
        except clients.Refused:  # a stranger has put a list or the like there
            return None
        return found

    def _lifetime(self, timeout: Any) -> int | None:
        """Return the milliseconds to live; None for ever."""
        if timeout == DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return None if timeout is None else max(0, int(timeout * 1000))


def _sealed(key: str, value: Any) -> bytes:
    """Return the value as it is stored under the key."""
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise TypeError(f"the cache holds JSON, and not {key!r}: {error}") from None
    if json.loads(text) != value:
        told = "tuples and keys that are no text would be read as something else"
        raise TypeError(f"the cache holds JSON, and not {key!r}: {told}")
    body = text.encode()
    return _MARK + _mac(settings.SECRET_KEY, key, body) + body


def _open(key: str, sealed: bytes | None) -> Any:
    """Return the value; ``_MISSING`` if its MAC is not right."""
    begin = len(_MARK) + _MAC
    if sealed is None or len(sealed) < begin or not sealed.startswith(_MARK):
        return _MISSING
    told, body = sealed[len(_MARK) : begin], sealed[begin:]
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        if hmac.compare_digest(told, _mac(secret, key, body)):
            return json.loads(body)
    return _MISSING


def _mac(secret: str | bytes, key: str, body: bytes) -> bytes:
    known = secret if isinstance(secret, bytes) else secret.encode()
    own = hmac.digest(known, _SALT, "sha256")
    name = key.encode()
    return hmac.digest(own, b"%d:%b%b" % (len(name), name, body), "sha256")


def _thousands(found: Iterable[bytes]) -> Iterator[list[bytes]]:
    some: list[bytes] = []
    for one in found:
        some.append(one)
        if len(some) == 1000:
            yield some
            some = []
    if some:
        yield some
