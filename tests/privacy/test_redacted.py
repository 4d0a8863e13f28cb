"""Copies of exceptions: what a tracker needs of them, and nothing that is to be hidden."""

from __future__ import annotations

import traceback
from types import TracebackType

import pytest
from django.views.debug import ExceptionReporter

from jobs import redacted
from jobs.redaction import Redacted

SECRET = "hunter2hunter2"


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def copied(error: BaseException) -> Redacted:
    try:
        raise error
    except BaseException as raised:
        return redacted.copy(raised, raised.__traceback__)


def stack(trace: TracebackType | None) -> list[tuple[str, str]]:
    return [(frame.name, frame.line or "") for frame in traceback.extract_tb(trace)]


def test_a_copy_has_name_message_and_stack_and_no_variables() -> None:
    made = copied(ValueError(f"password={SECRET}\nsecond line"))
    assert (type(made).__name__, type(made).__module__) == ("ValueError", "builtins")
    assert str(made) == "password=***\nsecond line"
    assert stack(made.__traceback__) == [("copied", "raise error")]
    assert made.__traceback__ is not None
    frame = made.__traceback__.tb_frame
    assert (frame.f_locals, frame.f_back, frame.f_globals["__name__"]) == ({}, None, __name__)
    shown = "".join(traceback.format_exception(made))
    assert "ValueError: password=***" in shown and SECRET not in shown


def test_causes_contexts_and_notes_are_copied() -> None:
    def break_it() -> None:
        try:
            try:
                raise KeyError(SECRET)
            except KeyError as error:
                raise LookupError("middle") from error
        except LookupError:
            last = RuntimeError("last")
            last.add_note(f"token={SECRET}")
            raise last  # noqa: B904 - its context is looked for

    with pytest.raises(RuntimeError) as raised:
        break_it()
    made = redacted.copy(raised.value, raised.value.__traceback__)
    assert made.__notes__ == ["token=***"]
    middle = made.__context__
    assert isinstance(middle, Redacted) and str(middle) == "middle"
    assert type(middle.__cause__).__name__ == "KeyError"


def test_a_group_has_copies_in_it() -> None:
    made = copied(ExceptionGroup("both", [ValueError(f"token={SECRET}"), TypeError("x")]))
    assert isinstance(made, ExceptionGroup) and type(made).__name__ == "ExceptionGroup"
    assert [str(one) for one in made.exceptions] == ["token=***", "x"]
    assert all(isinstance(one, Redacted) for one in made.exceptions)


def test_what_goes_in_circles_or_deep_is_cut() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert str(copied(one)) == "one"

    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        raise ValueError("deep")

    with pytest.raises(ValueError, match="deep") as raised:
        deep(400)
    made = redacted.copy(raised.value, raised.value.__traceback__)
    assert 100 < len(stack(made.__traceback__)) < 400
    many = ExceptionGroup("many", [ValueError(str(number)) for number in range(5000)])
    group = copied(many)
    assert isinstance(group, ExceptionGroup) and len(group.exceptions) < 100


@pytest.mark.parametrize("error", [Odd(), SystemExit(3), KeyboardInterrupt()])
def test_anything_can_be_copied(error: BaseException) -> None:
    made = copied(error)
    assert isinstance(made, Exception) and type(made).__name__ == type(error).__name__


def test_a_copy_that_fails_is_one_all_the_same() -> None:
    class Evil(Exception):
        def __getattribute__(self, name: str) -> object:
            raise RuntimeError("no")

    assert "cannot be shown" in str(redacted.copy(Evil(), None))


def test_django_can_mail_it_to_the_administrators() -> None:
    made = copied(ValueError(f"password={SECRET}"))
    reporter = ExceptionReporter(None, type(made), made, made.__traceback__, is_email=True)
    text = reporter.get_traceback_text()
    assert "raise error" in text and SECRET not in text
    assert "raise error" in reporter.get_traceback_html()
