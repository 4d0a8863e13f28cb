"""Who did it, and why: what every write of a person has to say."""

from __future__ import annotations

from jobs.errors import InvalidOption
from jobs.names import label_problem

REASON_LIMIT = 500


def checked_by(by: object) -> str:
    """The name of the actor."""
    if problem := label_problem(by):
        raise InvalidOption("by", problem)
    name = str(by).strip()
    if not name:
        raise InvalidOption("by", "is empty: say who does it")
    return name


def checked_reason(reason: object) -> str:
    """Why it is done."""
    if problem := label_problem(reason, REASON_LIMIT):
        raise InvalidOption("reason", problem)
    text = str(reason).strip()
    if not text:
        raise InvalidOption("reason", "is empty: say why")
    return text
