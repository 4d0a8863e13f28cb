"""Queries of bulk operations as conditions on jobs ``j`` and their open dead letters ``d``."""

from __future__ import annotations

import shlex
from typing import Any
from uuid import UUID

from jobs.errors import InvalidOption
from jobs.states import JobState

_COLUMNS = {
    "state": "j.state = ANY(%s)",
    "kind": "j.kind = ANY(%s)",
    "queue": "j.queue = ANY(%s)",
    "tenant": "j.tenant = ANY(%s)",
    "correlation": "j.correlation_id = ANY(%s)",
    "tag": "j.tags && %s",
    "id": "j.id = ANY(%s)",
    "batch": "j.batch_id = ANY(%s)",
    "fingerprint": "d.fingerprint = ANY(%s)",
}


def condition(text: str) -> tuple[str, list[Any]]:
    """The condition and its parameters; raises InvalidOption.

    ``key:value`` each, all of which must hold; a key given twice means either, ``-key:`` not.
    """
    values: dict[tuple[bool, str], list[Any]] = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidOption("query", f"cannot be read: {error}") from None
    if not words:
        raise InvalidOption("query", "is empty: say which jobs")
    for word in words:
        key, colon, value = word.lstrip("-").partition(":")
        if key not in _COLUMNS or not colon or not value or "\x00" in value:
            known = ", ".join(_COLUMNS)
            raise InvalidOption("query", f"{word!r} is not KEY:VALUE with a key of {known}")
        values.setdefault((word.startswith("-"), key), []).append(_value(key, value))
    parts = [f"{'NOT ' if no else ''}({_COLUMNS[key]})" for no, key in values]
    return " AND ".join(parts), list(values.values())


def _value(key: str, value: str) -> Any:
    if key in ("id", "batch"):
        try:
            return UUID(value)
        except ValueError:
            raise InvalidOption("query", f"{value!r} is no id") from None
    if key == "state" and value not in set(JobState):
        raise InvalidOption("query", f"state {value!r} is none of {', '.join(JobState)}")
    return value
