"""Why something is refused or passed by, in the reader's language.

The platform says it in English, for programs and records; pages say the same in the words of the
catalogue, whether they hear it now or read it from a row that was written long ago.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
WORDS = (
    gettext_noop("retry"), gettext_noop("replay"), gettext_noop("cancel"), gettext_noop("edit"),
    gettext_noop("run"), gettext_noop("run again"), gettext_noop("abort"), gettext_noop("proceed"),
    gettext_noop("discard"), gettext_noop("pause"), gettext_noop("resume"), gettext_noop("ping"),
    gettext_noop("ignore"), gettext_noop("resolve"), gettext_noop("reopen"), gettext_noop("drain"),
    gettext_noop("stop"),
)  # fmt: skip
"""What can be done; states have their words already."""
_PLACE = re.compile(r"%\\\((\w+)\\\)s")


def in_words(english: object) -> str:
    """The same in the reader's language, where it is one of the known texts."""
    said = str(english)
    for text, pattern in _patterns():
        if found := pattern.fullmatch(said):
            if (translated := gettext(text)) == text:
                return said
            values = {name: _word(name, value) for name, value in found.groupdict().items()}
            return translated % values if values else translated
    return said


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(_compiled())


def _compiled() -> Iterator[tuple[str, re.Pattern[str]]]:
    for text in TEXTS:
        yield text, re.compile(_PLACE.sub(r"(?P<\1>.+?)", re.escape(text)), re.DOTALL)


def _word(name: str, value: str) -> str:
    if name == "states":
        return ", ".join(_state(state) for state in value.split(" or "))
    if name == "state":
        return _state(value)
    return gettext(value) if name == "verb" else value


def _state(state: str) -> str:
    return str(LOOKS[state].label).lower() if state in LOOKS else state
