"""Why something is refused or passed by, in the reader's language.

The platform says it in English, for programs and records; pages say the same in the words of the
catalogue, whether they hear it now or read it from a row that was written long ago.
"""

from __future__ import annotations

import re
from functools import cache

from django.utils.translation import gettext, gettext_noop

from jobs.admin.words import LOOKS

TEXTS = (
    gettext_noop("cannot %(verb)s %(subject)s: it is %(state)s; it must be %(states)s"),
    gettext_noop("cannot %(verb)s %(subject)s: it is succeeded by %(job)s, which is unfinished"),
    gettext_noop("cannot %(verb)s %(subject)s: it is of kind %(kind)s, which forbids it"),
    gettext_noop("cannot %(verb)s %(subject)s: it is in doubt about an effect; resolve that first"),
    gettext_noop("cannot %(verb)s %(subject)s: it is of the key %(key)s, which job %(job)s has"),
    gettext_noop("cannot %(verb)s %(subject)s: it is %(state)s"),
    gettext_noop("is %(state)s"),
    gettext_noop("carries out bulk operations"),
    gettext_noop("has no open dead letter"),
    gettext_noop("is of a kind that forbids replays"),
    gettext_noop("is of an internal kind"),
    gettext_noop("was replayed: its replay stands for it"),
    gettext_noop("was moved by somebody at this moment"),
    gettext_noop("was asked to stop"),
    gettext_noop("is due already"),
    gettext_noop("is gone"),
    gettext_noop("has left the scope"),
    gettext_noop("permission %(permission)s is missing"),
    gettext_noop("%(kind)s %(target)s has changed since it was read"),
    gettext_noop("there is no %(kind)s %(target)s"),
    gettext_noop("took longer than %(n)s s: narrow the query by time, kind or queue"),
    gettext_noop("reason: is empty: say why"),
)
"""Everything that is said so, the more exact text first."""
PROBLEMS = (
    gettext_noop("must be at least %(n)s"),
    gettext_noop("must be more than %(n)s"),
    gettext_noop("must be at most %(n)s"),
    gettext_noop("must be less than %(n)s"),
    gettext_noop("must have at least %(n)s characters"),
    gettext_noop("must have at most %(n)s characters"),
    gettext_noop("must have at least %(n)s entries"),
    gettext_noop("must have at most %(n)s entries"),
    gettext_noop("must be one of: %(choices)s"),
    gettext_noop("must be a whole number"),
    gettext_noop("must be a number"),
    gettext_noop("must be from 0 to %(n)s days"),
    gettext_noop("holds a NUL or a lone surrogate"),
    gettext_noop("is no finite number"),
    gettext_noop("is too large"),
    gettext_noop("is too long"),
    gettext_noop("is empty"),
    gettext_noop("has passed"),
)
"""What is wrong with a value that was given to a verb."""
WORDS = (
    gettext_noop("retry"), gettext_noop("replay"), gettext_noop("cancel"), gettext_noop("edit"),
    gettext_noop("run"), gettext_noop("run again"), gettext_noop("abort"), gettext_noop("proceed"),
    gettext_noop("discard"), gettext_noop("pause"), gettext_noop("resume"), gettext_noop("ping"),
    gettext_noop("ignore"), gettext_noop("resolve"), gettext_noop("reopen"), gettext_noop("drain"),
    gettext_noop("stop"),
)  # fmt: skip
"""What can be done; states have their words already."""
LONGEST = 400
"""Characters of a text that is looked up; each pattern tries every place for every value."""
Patterns = tuple[tuple[str, re.Pattern[str]], ...]
_PLACE = re.compile(r"%\\\((\w+)\\\)s")


def in_words(english: object) -> str:
    """The same in the reader's language, where it is one of the known texts."""
    said = str(english)
    if len(said) > LONGEST:
        return said
    option, colon, problem = said.partition(": ")
    if colon and (words := _told(problem, _patterns(PROBLEMS))) is not None:
        return f"{option}: {words}"
    words = _told(said, _patterns(TEXTS))
    return said if words is None else words


def _told(said: str, patterns: Patterns) -> str | None:
    for text, pattern in patterns:
        if found := pattern.fullmatch(said):
            if (translated := gettext(text)) == text:
                return None
            values = {name: _word(name, value) for name, value in found.groupdict().items()}
            return translated % values if values else translated
    return None


@cache
def _patterns(texts: tuple[str, ...]) -> Patterns:
    return tuple(
        (text, re.compile(_PLACE.sub(r"(?P<\1>.+?)", re.escape(text)), re.DOTALL)) for text in texts
    )


def _word(name: str, value: str) -> str:
    if name == "states":
        return ", ".join(_state(state) for state in value.split(" or "))
    if name == "state":
        return _state(value)
    return gettext(value) if name == "verb" else value


def _state(state: str) -> str:
    return str(LOOKS[state].label).lower() if state in LOOKS else state
