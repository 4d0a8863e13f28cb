"""No text takes long to be redacted: it is cut first, and every pattern is linear."""

from __future__ import annotations

import logging
import random
import re
from typing import Any

import pytest

from jobs import fingerprints, redaction
from jobs.logs import LINE_LIMIT, AttemptLog
from jobs.redaction import RedactingFilter, processor, redact_text, scrubbing
from tests.attack.slow import MOMENT, QUADRATIC, growth, seconds

PATTERNS = {
    f"{module.__name__}.{name}": found
    for module in (redaction, fingerprints)
    for name, found in vars(module).items()
    if isinstance(found, re.Pattern)
}
STARTS = (
    "eyJ", "-eyJ", "eyJaaaaa.", "-eyJaaaaa", "enc1.", "enc1.a.", "a@", "a@a.", "'a", "a.", "a-",
    "Bearer ", "Token\t", "Basic", "://", "://:", "://a:", "password=", "a=\"", "a='", "a=\"b='",
    "aa:", "aa=\n", "=", "1", "12", "1.", "1-", "11 ", "2222 ", "2222-22", "111.", "A1", "AA.",
    "File \"", "File \"a\", line 1", "0x", "'", "\"", "'\"", "abcdef0123", "a0-", " ", "\t",
    "\x00", "\u2028", "é", "İ", "_",
)  # fmt: skip
"""What the patterns begin with, and what they find between."""


def mixes() -> list[str]:
    draw = random.Random(7)
    return ["".join(draw.choices(STARTS, k=draw.randint(2, 6))) for _ in range(40)]


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_every_pattern_takes_linear_time(pattern: re.Pattern[str]) -> None:
    for part in (*STARTS, *mixes()):
        times, long = growth(lambda text: pattern.sub("#", text), part, 5000)
        assert times < QUADRATIC, (part, times, long)


@pytest.mark.parametrize("part", STARTS)
def test_a_text_of_any_length_is_redacted_in_a_moment(part: str) -> None:
    text = part * (1_000_000 // len(part))
    assert seconds(lambda: redact_text(text), 2) < MOMENT / 3
    assert len(redact_text("x" * 1_000_000)) <= redaction.TEXT_LIMIT


@pytest.mark.parametrize("part", ["-eyJ", "a@a.", "password=", "2222 "])
def test_lines_of_logs_are_cut_before_they_are_redacted(part: str) -> None:
    text = part * 20_000

    def by_filter() -> Any:
        record = logging.LogRecord("a", logging.INFO, "a.py", 1, "Not Found: %s", (text,), None)
        RedactingFilter().filter(record)
        return record.msg

    def by_attempt() -> Any:
        log = AttemptLog.of(logging.getLogger("tests.attack"))
        for _ in range(200):
            log.info(text)
        return log.lines()

    assert seconds(by_filter, 2) < MOMENT / 5 and len(by_filter()) <= redaction.LINE_LIMIT
    told = processor(None, "info", {"event": text, "path": text})
    assert max(map(len, told.values())) <= redaction.LINE_LIMIT
    assert seconds(by_attempt, 1) < MOMENT
    assert max(map(len, by_attempt())) <= LINE_LIMIT


def test_many_values_of_a_job_are_hidden_in_little_time() -> None:
    values = [f"a{number:04d}" for number in range(8000)]
    text = "".join(values)
    with scrubbing(values):
        redact_text("warm")

        assert seconds(lambda: redact_text(text), 2) < MOMENT
        assert redact_text("a0001 a7999 a8000") == "*** *** a8000"


@pytest.mark.parametrize("head", [0.0, 0.3, 0.5, 1.0])
def test_what_is_cut_leaves_no_half_of_a_value(head: float) -> None:
    value = "Maria of the long name, and of her long street"
    for at in range(0, 120, 3):
        text = "x" * at + value * 50
        with scrubbing([value]):
            shown = redact_text(text, limit=60, head=head)
        assert "aria" not in shown and "street" not in shown, shown
    words = ["hunter2 "] * 100
    shown = redact_text("".join(words), limit=61, head=head)
    assert set(shown.replace("…", " ").split()) <= {"hunter2"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token-eyJhbGciOi.eyJzdWIiOi.c2ln!", "token-***!"),
        ("a-b-eyJhbGciOi.eyJzdWIiOi.c2ln", "a-b-***"),
        ("x.eyJhbGciOi.eyJzdWIiOi.c2ln", "x.***"),
        ("cut eyJhbGciOi.eyJzdWIiOi…", "cut ***…"),
        ("keyJhbGciOi.eyJzdWIiOi", "keyJhbGciOi.eyJzdWIiOi"),
        ("eyJ-eyJhbGciOi eyJ.eyJ", "eyJ-eyJhbGciOi eyJ.eyJ"),
        ("-eyJ-eyJabc.eyJabcdef.x", "-***"),
    ],
)
def test_tokens_are_found_where_a_word_begins(text: str, shown: str) -> None:
    assert redact_text(text) == shown
