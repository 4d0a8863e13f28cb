"""Words in two languages: in English, for programs and records, and in the reader's language.

::

    words = say("waits until %(at)s", at=moment) + say("; it cannot be preempted")
    words.english, words.told

A text given to ``say`` stands in the catalogues like one given to gettext.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, gettext_lazy, ngettext

from jobs.states import JobState

REASONS: dict[str, Any] = {
    "exhausted": gettext_lazy("no attempt was left"),
    "timeout": gettext_lazy("it ran into its timeout"),
    "unrecoverable": gettext_lazy("another attempt would be of no use"),
    "crash_loop": gettext_lazy("it crashed its worker too often"),
    "released_too_often": gettext_lazy("it lost its worker too often"),
    "in_doubt": gettext_lazy("an effect may or may not have happened"),
    "lost": gettext_lazy("its worker was lost"),
    "unknown_kind": gettext_lazy("no handler is registered for its kind"),
    "bad_payload": gettext_lazy("its payload does not fit its kind"),
    "bad_result": gettext_lazy("its result cannot be stored"),
}
"""Why jobs fail for good, by code."""
_SCOPES: dict[str, Any] = {
    "queue": gettext_lazy("queue “%(name)s”"),
    "kind": gettext_lazy("kind “%(name)s”"),
    "tenant": gettext_lazy("tenant “%(name)s”"),
    "key": gettext_lazy("key “%(name)s”"),
    "limit_key": gettext_lazy("limit key “%(name)s”"),
}


@dataclass(frozen=True, slots=True)
class Phrase:
    """The same in both."""

    english: str
    told: str

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.english + other.english, self.told + other.told)


def say(text: str, **values: object) -> Phrase:
    """The text with its values, of which phrases keep their own words."""
    english = {n: v.english if isinstance(v, Phrase) else v for n, v in values.items()}
    told = {n: v.told if isinstance(v, Phrase) else v for n, v in values.items()}
    if not values:
        return Phrase(text, gettext(text))
    return Phrase(text % english, gettext(text) % told)


def say_many(one: str, many: str, n: int, **values: object) -> Phrase:
    """The text for this many, with its values; a text without its number is for one alone."""
    english = one if n == 1 else many
    told = {name: v.told if isinstance(v, Phrase) else v for name, v in values.items()}
    plain_values = {name: v.english if isinstance(v, Phrase) else v for name, v in values.items()}
    return Phrase(english % {"n": n, **plain_values}, ngettext(one, many, n) % {"n": n, **told})


def plain(text: str) -> Phrase:
    """What is the same in every language."""
    return Phrase(text, text)


def state_word(state: str) -> Phrase:
    """The word for a state of jobs."""
    known = state in set(JobState)
    return Phrase(state, gettext(state)) if known else plain(state)


def reason_word(code: str) -> Phrase:
    """Why a job failed for good: its code, and what that means."""
    return Phrase(code, str(REASONS.get(code, code)))


def scope_word(scope: str) -> Phrase:
    """What is closed or limited, as people call it; its own spelling for programs."""
    what, _, name = scope.partition(":")
    if what not in _SCOPES or not name:
        return plain(scope)
    return Phrase(scope, str(_SCOPES[what]) % {"name": name})
