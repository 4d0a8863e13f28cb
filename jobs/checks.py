"""`manage.py check`: wrong settings and risky set-ups, said before they hurt."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, register

from jobs import conf
from jobs.errors import ConfigError


@register("jobs")
def settings_are_valid(**_: Any) -> list[CheckMessage]:
    """The JOBS setting parses."""
    try:
        conf.settings()
    except ConfigError as error:
        return [Error(str(error), id="jobs.E001")]
    return []
