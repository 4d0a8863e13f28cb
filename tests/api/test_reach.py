"""What a caller is told, and what it may send: no more than is its own, and nothing unchecked."""

from __future__ import annotations

from typing import Any

import pytest

import jobs
from tests.api.conftest import Caller
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "text/plain"])
def test_a_body_is_checked_whatever_it_calls_itself(root: Caller, kind: str) -> None:
    headers = {"Authorization": f"Bearer {root.secret}"}

    answer = root.client.generic(
        "POST", "/api/v1/batches", b'{"name": "a", "name": "b"}', content_type=kind, headers=headers
    )

    assert answer.status_code == 422 and b"repeated-key" in answer.content


@pytest.mark.parametrize(
    "unique",
    [{"key": "a\x07b"}, {"key": "k", "on_conflict": "replace"}],
    ids=["control character", "replace without waiting"],
)
def test_a_unique_key_that_cannot_be_is_the_callers_fault(root: Caller, unique: Any) -> None:
    answer = root("POST", "/jobs", {"kind": "test.noop", "unique": unique})

    assert (answer.status_code, answer.data["code"]) == (422, "invalid-option")
    assert answer.data["errors"][0]["pointer"] == "/unique"


def test_an_explanation_names_no_job_out_of_sight(root: Caller, acme: Caller) -> None:
    hidden = jobs.enqueue(Noop(), tenant="other").id
    waiting = jobs.enqueue(Noop(), tenant="acme", after=[hidden]).id

    mine = acme("GET", f"/jobs/{waiting}/explain").data["reasons"][0]
    whole = root("GET", f"/jobs/{waiting}/explain").data["reasons"][0]

    assert mine["text"] == "waits for 1 unfinished parents: …" and mine["ids"] == []
    assert str(hidden) in whole["text"] and whole["ids"] == [str(hidden)]
