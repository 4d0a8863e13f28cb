"""Words that are told twice: in English, for programs and records, and in the reader's language.

::

    words = say("waits until %(at)s", at=moment) + say("; it cannot be preempted")
    words.english, words.told

A text given to ``say`` stands in the catalogues like one given to gettext.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext

from jobs.states import JobState


@dataclass(frozen=True, slots=True)
class Phrase:
    """The same in both."""

    english: str
    told: str

    def __add__(self, other: Phrase) -> Phrase:
        return Phrase(self.english + other.english, self.told + other.told)


def say(text: str, **values: object) -> Phrase:
    """The text with its values, of which phrases are told in their own words."""
    english = {n: v.english if isinstance(v, Phrase) else v for n, v in values.items()}
    told = {n: v.told if isinstance(v, Phrase) else v for n, v in values.items()}
    if not values:
        return Phrase(text, gettext(text))
    return Phrase(text % english, gettext(text) % told)


def plain(text: str) -> Phrase:
    """What is the same in every language."""
    return Phrase(text, text)


def state_word(state: str) -> Phrase:
    """The word for a state of jobs."""
    known = state in set(JobState)
    return Phrase(state, gettext(state)) if known else plain(state)
