"""Who types at a terminal: the user of the operating system, who has every permission."""

from __future__ import annotations

import getpass

from jobs.principals import Principal


def person() -> Principal:
    """Who types, as the audit names him."""
    try:
        return Principal(getpass.getuser(), "cli")
    except (KeyError, OSError):
        return Principal("command line", "cli")
