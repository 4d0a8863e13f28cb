"""Bodies of very many values, or with very many errors, are refused before they cost anything."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import jsontext
from jobs.api import requests
from jobs.errors import InvalidPayload
from jobs.payloads import ERRORS_LIMIT
from tests.api.conftest import Caller
from tests.specimens.handlers import Noop

MANY = requests.CONTAINERS_LIMIT + 1
is_crowded = partial(
    jsontext.is_crowded, values=requests.VALUES_LIMIT, containers=requests.CONTAINERS_LIMIT
)
QUOTES = ['"', '\\"', "\\\\", '\\\\\\"', "[", ",", "{", "a"]


@pytest.mark.parametrize(
    "part", ["[]", "{}", "[[]]", '{"a":[]}', '"\\"",[]', '"\\\\",{}', '"[",[]']
)
def test_lists_and_objects_are_counted(part: str) -> None:
    for count, is_too_much in ((MANY, True), (MANY // 4, False)):
        assert is_crowded(f"[{','.join([part] * count)}]".encode()) == is_too_much


@pytest.mark.parametrize("text", ["[", "{", ",", '\\"[', '\\\\\\"[', "[]{},\\\\"])
def test_what_stands_in_texts_is_not_counted(text: str) -> None:
    assert not is_crowded(f'["{text * 200_000}","a"]'.encode())


@given(st.lists(st.sampled_from(QUOTES), max_size=8).map("".join), st.booleans())
def test_values_are_found_behind_any_text(text: str, is_key: bool) -> None:
    first = {text: 1} if is_key else text
    for count in (MANY, 10):
        body = json.dumps([text, first, *[[]] * count]).encode()
        assert is_crowded(body) == (count == MANY)


@pytest.mark.django_db
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-be"])
def test_bodies_are_utf8(acme: Caller, encoding: str) -> None:
    answer = acme("POST", "/jobs", json.dumps({"kind": "test.noop"}).encode(encoding))

    assert (answer.status_code, answer.data["code"]) == (400, "invalid-json")


@pytest.mark.django_db
def test_of_very_many_errors_the_number_is_told(acme: Caller) -> None:
    for count, told in ((20, 20), (ERRORS_LIMIT + 1, 0)):
        wanted: dict[str, Any] = {"kind": "test.noop", **{f"a{n}": n for n in range(count)}}
        answer = acme("POST", "/jobs", wanted)

        assert (answer.status_code, answer.data["code"]) == (422, "invalid")
        assert len(answer.data.get("errors", [])) == told
    assert answer.data["detail"] == f"the request has {ERRORS_LIMIT + 1} errors"
    with pytest.raises(InvalidPayload, match=f"has {ERRORS_LIMIT + 1} errors"):
        Noop.build({f"a{n}": n for n in range(ERRORS_LIMIT + 1)})
