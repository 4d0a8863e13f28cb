"""Pauses of limit keys, and what the list of limits says of rates, over the API."""

from __future__ import annotations

from tests.api.conftest import Caller
from tests.jobs.factories import sql

SCOPE = {"scope": "limit_key:acme", "reason": "they refuse our key"}


def test_a_limit_key_is_paused_and_resumed(root: Caller) -> None:
    assert root("POST", "/pauses", SCOPE).status_code < 300
    assert [one["scope"] for one in root("GET", "/pauses").data] == ["limit_key:acme"]
    assert root("POST", "/pauses/resume", SCOPE).data == {"resumed": True}
    assert root("GET", "/pauses").data == []


def test_an_empty_limit_key_is_named(root: Caller) -> None:
    answer = root("POST", "/pauses", {**SCOPE, "scope": "limit_key:"})
    assert answer.status_code == 422
    assert "the limit key is empty" in str(answer.data)


def test_the_list_says_since_when_a_rate_holds_jobs_back(root: Caller) -> None:
    sql(
        "INSERT INTO jobs_limiter (scope, per_second, rated_at, rated_since) VALUES "
        "('kind:test.noop', 1, jobs_clock(), jobs_clock() - interval '1 h')"
    )
    [limit] = [one for one in root("GET", "/limits").data if one["scope"] == "kind:test.noop"]
    assert limit["rated_since"] < limit["rated_at"]
