"""The words for why jobs fail for good: one for each code, in every language."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import get_args

import pytest
from django.conf import settings
from django.utils import translation

from jobs import registry
from jobs.engine import settler
from jobs.engine.claims import Ended
from jobs.ids import uuid7
from jobs.operate.phrases import REASONS, reason_word
from jobs.outcomes import RELEASE_LIMIT, Counters, Ending, Move, decide
from jobs.states import JobState

LANGUAGES = [code for code, _ in settings.LANGUAGES]


def codes() -> set[str]:
    """Every code that an end can have, whatever the kind and the job are like."""
    known = registry.get("test.noop")
    handlers = [
        None,
        *(replace(known, on_lost=on_lost) for on_lost in ("rerun", "fail", "in_doubt")),
        replace(known, on_timeout="fail"),
    ]
    counters = [
        Counters(failures, crashes, releases, max_attempts=3)
        for failures, crashes, releases in itertools.product((0, 2), (0, 9), (0, RELEASE_LIMIT))
    ]
    moves = [decide(*one) for one in itertools.product(get_args(Ending), counters, handlers)]
    refused = Ended(uuid7(), uuid7(), known.kind, Move(JobState.PENDING, "no"))
    moves.append(settler._failed(refused, ValueError()).move)
    return {move.reason for move in moves} - {""}


def test_every_code_has_a_phrase_and_every_phrase_a_code() -> None:
    assert set(REASONS) == codes()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_words_of_its_own(language: str) -> None:
    with translation.override("en"):
        english = {code: reason_word(code).told for code in codes()}
    with translation.override(language):
        for code in codes():
            word = reason_word(code)
            assert word.english == code
            assert word.told != code
            assert (word.told == english[code]) == (language == "en")
