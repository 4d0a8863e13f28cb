"""The project's settings: ``settings()`` reads ``OPERATIONS`` of Django's settings."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from operations.table import OPERATIONS


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key of ``OPERATIONS``, with its default."""

    ERP_URL: str = ""
    """The address of the ERP; without it, nothing can be enqueued."""
    CALL_TIMEOUT: float = 30.0
    """Seconds of one call of the ERP."""
    EXPORT_TIMEOUT: float = 240.0
    """Seconds of the download of an export."""
    EXPORT_LIMIT: int = 256 * 1024 * 1024
    """Bytes of an export."""
    EXPORTS: str = ""
    """The folder of unfinished exports; by default one below the system's temporary folder."""
    BREAKER_THRESHOLD: int = 3
    """Consecutive failures that open the circuit of an agent."""
    BREAKER_OPEN_FOR: float = 300.0
    """Seconds before an open circuit lets a probe through."""
    TIMEOUTS: Mapping[str, float] = field(default_factory=dict)
    """Timeouts in seconds that differ from the table, by type."""
    TARGETS: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Minutes after which a mirror is stale, for active and idle agents, by type of sync."""

    def timeout(self, type: str) -> float:
        """Return the timeout of a type of operation."""
        return float(self.TIMEOUTS.get(type, OPERATIONS[type].timeout))

    def target(self, type: str) -> tuple[int, int]:
        """Return after how many minutes the mirror is stale: for active and for idle agents."""
        one = OPERATIONS[type]
        active, idle = self.TARGETS.get(type, (one.active, one.idle))
        return active, idle

    def exports(self) -> Path:
        """Return the folder of exports, which only this user can read."""
        folder = Path(self.EXPORTS or Path(tempfile.gettempdir()) / "operations-exports")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        return folder


_KEYS = {f.name: f for f in fields(Settings)}
_NUMBERS = (
    "CALL_TIMEOUT", "EXPORT_TIMEOUT", "EXPORT_LIMIT", "BREAKER_THRESHOLD", "BREAKER_OPEN_FOR"
)  # fmt: skip


def _unknown(what: str, name: object, known: Any) -> ImproperlyConfigured:
    near = difflib.get_close_matches(str(name), [str(one) for one in known], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ImproperlyConfigured(f"{what} has no key {name!r}{hint}")


def parse(raw: object) -> Settings:
    """Validate the settings; raise ImproperlyConfigured that names the key."""
    if not isinstance(raw, Mapping):
        raise ImproperlyConfigured(f"OPERATIONS must be a dict, got {type(raw).__name__}")
    for key in raw:
        if key not in _KEYS:
            raise _unknown("OPERATIONS", key, _KEYS)
    found = Settings(**raw)
    for name in _NUMBERS:
        if not _is_positive(getattr(found, name)):
            raise ImproperlyConfigured(f"OPERATIONS[{name!r}] must be a number above zero")
    for type_, value in found.TIMEOUTS.items():
        if type_ not in OPERATIONS:
            raise _unknown("OPERATIONS['TIMEOUTS']", type_, OPERATIONS)
        if not _is_positive(value):
            raise ImproperlyConfigured(
                f"OPERATIONS['TIMEOUTS'][{type_!r}] must be a number above zero"
            )
    for type_, target in found.TARGETS.items():
        if type_ not in OPERATIONS:
            raise _unknown("OPERATIONS['TARGETS']", type_, OPERATIONS)
        given: Any = target
        is_pair = isinstance(given, tuple | list) and len(given) == 2
        if not is_pair or not all(isinstance(n, int) and n >= 0 for n in given):
            raise ImproperlyConfigured(
                f"OPERATIONS['TARGETS'][{type_!r}] must be two whole numbers of minutes"
            )
    return found


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_current: Settings | None = None


def settings() -> Settings:
    """Return the current settings."""
    global _current
    if _current is None:
        _current = parse(getattr(django_settings, "OPERATIONS", {}))
    return _current


def _forget(*, setting: str, **_: object) -> None:
    global _current
    if setting == "OPERATIONS":
        _current = None


setting_changed.connect(_forget)
