"""Payloads through time: old names, old versions, and what JSON makes of them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jobs
from jobs import jsontext
from jobs.errors import InvalidPayload
from jobs.jsontext import UnstorableValue, dumps, printable


class Mail(jobs.Payload, kind="test.mail", aliases=["mail.send"], version=3):
    outbox_id: UUID
    urgent: bool = False

    @classmethod
    def upcast(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
        if version < 2:
            data = {"outbox": data["id"]}
        if version < 3:
            data = {"outbox_id": data["outbox"]}
        return data


ID = UUID("018f5f4e-7c1d-7a52-9b8e-2f6a3c4d5e6f")


@pytest.mark.parametrize(("version", "name"), [(1, "id"), (2, "outbox"), (3, "outbox_id")])
def test_a_row_of_any_version_is_read(version: int, name: str) -> None:
    assert Mail.from_text(json.dumps({name: str(ID)}), version) == Mail(outbox_id=ID)


def test_what_was_written_is_read_back() -> None:
    mail = Mail(outbox_id=ID, urgent=True)
    assert Mail.from_text(mail.to_text(1000), 3) == mail


@pytest.mark.parametrize(
    ("text", "version", "field"),
    [
        ('{"outbox_id": 5}', 3, "outbox_id"),
        ("{}", 3, "outbox_id"),
        (json.dumps({"outbox_id": str(ID), "more": 1}), 3, "more"),
        ('{"outbox": "nothing"}', 2, "outbox_id"),
        ("{}", 2, "upcast"),
        ("[]", 1, "upcast"),
        ("5", 3, "payload"),
        ("{", 3, "payload"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_by_field(text: str, version: int, field: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        Mail.from_text(text, version)
    assert (caught.value.kind, caught.value.field) == ("test.mail", field)


def test_a_payload_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Mail(outbox_id=ID).urgent = True


def test_one_alias_may_be_a_text() -> None:
    class One(jobs.Payload, kind="test.one", aliases="test.uno"):
        pass

    assert One.aliases == ("test.uno",)


# ---- JSON text

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(values)
def test_what_can_be_stored_comes_back(value: Any) -> None:
    assert json.loads(dumps(value, 10**6)) == value


@given(
    values,
    st.sampled_from(["\0", "a\0", "\ud800", "x\udfff"])
    | st.sampled_from([float("nan"), float("inf")]),
)
def test_what_cannot_be_stored_is_found_wherever_it_is(value: Any, bad: Any) -> None:
    for hidden in (
        [value, bad],
        {"k": {"j": bad}, "v": value},
        [[[bad]], value],
        (value, {"a": [bad]}),
    ):
        with pytest.raises(UnstorableValue):
            dumps(hidden, 10**6)


@pytest.mark.parametrize("text", ["\\u0000", "NaN", "-Infinity", "u0000", "[" * 100, "9" * 5000])
def test_a_suspicious_text_may_be_innocent(text: str) -> None:
    assert json.loads(dumps({"t": text}, 10**5)) == {"t": text}


def test_a_limit_is_a_limit() -> None:
    assert dumps("x" * 8, 10) == '"xxxxxxxx"'
    with pytest.raises(UnstorableValue, match="is 11 bytes of JSON, the limit is 10"):
        dumps("x" * 9, 10)


def test_depth_is_limited() -> None:
    value: Any = 1
    for _ in range(jsontext.DEPTH_LIMIT):
        value = [value]
    assert dumps(value, 1000)
    with pytest.raises(UnstorableValue, match="nested deeper than 32"):
        dumps([value], 1000)


@given(st.text(), st.integers(1, 50))
def test_printable_text_can_be_stored(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit and "\0" not in shown
    shown.encode()
    if len(text) <= limit and "\0" not in text and text.isascii():
        assert shown == text
