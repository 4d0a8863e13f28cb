"""The oldest versions of what this works with: they are the oldest on which the tests run."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from typing import Any

import django

Version = tuple[int, ...]

PYTHON: Version = (3, 11)
DJANGO: Version = (5, 2)
REDIS_PY: Version = (5, 0, 8)
POSTGRESQL: Version = (14,)
REDIS: Version = (6, 2)


def parsed(text: Any) -> Version:
    """Return the numbers that a version begins with, for comparing."""
    found = re.match(r"\d+(\.\d+)*", str(text))
    return tuple(map(int, found[0].split("."))) if found else ()


def too_old(name: str, found: Any, oldest: Version) -> str:
    """Return what is wrong with a version that is too old; nothing where it is not."""
    if parsed(found) >= oldest:
        return ""
    return f"{name} {found} is too old: {'.'.join(map(str, oldest))} or newer is needed"


def old_packages() -> list[str]:
    """Return what is wrong with the versions of Python, Django and redis-py."""
    found = (
        too_old("Python", ".".join(map(str, sys.version_info[:3])), PYTHON),
        too_old("Django", django.get_version(), DJANGO),
        too_old("redis-py", version("redis"), REDIS_PY),
    )
    return [problem for problem in found if problem]
