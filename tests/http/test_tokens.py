"""A token is refreshed once, however many processes find it stale; a lost answer keeps the old."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest
from django.db import connection, transaction

from jobs import http
from jobs.errors import InvalidOption
from tests.jobs.crowd import at_once
from tests.specimens.models import Plan

TOKEN = ("title", "mood")
"""Fields of the specimen, in the place of an access token and a refresh token."""


class Provider:
    """Gives a new token for each refresh token, once."""

    def __init__(self, **answer: Any) -> None:
        self.answer, self.asked = answer, list[str]()

    def __call__(self, row: Plan) -> Mapping[str, Any]:
        self.asked.append(row.mood)
        number = len(self.asked)
        return self.answer or {"title": f"access-{number}", "mood": f"refresh-{number}"}


def stored(row: Plan) -> tuple[str, str]:
    found = Plan.objects.get(pk=row.pk)
    return found.title, found.mood


@pytest.fixture
def row(transactional_db: None) -> Plan:
    return Plan.objects.create(title="access-0", mood="refresh-0")


def test_new_values_are_in_the_database_and_in_the_row(row: Plan) -> None:
    provider = Provider()
    assert http.refresh_once(row, provider, fields=TOKEN)
    assert stored(row) == ("access-1", "refresh-1") == (row.title, row.mood)
    assert provider.asked == ["refresh-0"]


def test_racers_refresh_once(row: Plan) -> None:
    provider, count = Provider(), 6
    rows = [Plan.objects.get(pk=row.pk) for _ in range(count)]

    said = at_once([lambda one=one: http.refresh_once(one, provider, fields=TOKEN) for one in rows])  # type: ignore[misc]

    assert sorted(said) == [False] * (count - 1) + [True]
    assert provider.asked == ["refresh-0"]
    assert {(one.title, one.mood) for one in rows} == {("access-1", "refresh-1")}


def test_a_second_one_waits_for_the_answer_of_the_first(row: Plan) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(locked: Plan) -> Mapping[str, Any]:
        asked.set()
        assert go_on.wait(30)
        return {"title": "access-1"}

    def second() -> bool:
        assert asked.wait(30)
        other = Plan.objects.get(pk=row.pk)
        assert other.title == "access-0"
        go_on.set()
        return http.refresh_once(other, Provider(title="never"), fields=TOKEN)

    assert at_once([lambda: http.refresh_once(row, slow, fields=TOKEN), second]) == [True, False]
    assert stored(row) == ("access-1", "refresh-0")


def test_a_lost_answer_keeps_the_old_token(row: Plan) -> None:
    def lost(locked: Plan) -> Mapping[str, Any]:
        locked.title = "half an answer"
        locked.save()
        raise http.TooSlow("the call took too long")

    with pytest.raises(http.TooSlow):
        http.refresh_once(row, lost, fields=TOKEN)
    assert stored(row) == ("access-0", "refresh-0") == (row.title, row.mood)
    assert http.refresh_once(row, Provider(), fields=TOKEN)


@pytest.mark.parametrize("empty", [None, ""])
def test_an_answer_without_a_refresh_token_erases_none(row: Plan, empty: Any) -> None:
    assert http.refresh_once(row, Provider(title="access-1", mood=empty), fields=TOKEN)
    assert stored(row) == ("access-1", "refresh-0")
    assert http.refresh_once(row, Provider(title="access-2"), fields=TOKEN)
    assert stored(row) == ("access-2", "refresh-0")


def test_other_fields_are_left_alone(row: Plan) -> None:
    Plan.objects.filter(pk=row.pk).update(moves=7)
    row.moves = 1
    assert http.refresh_once(row, Provider(), fields=TOKEN)
    assert Plan.objects.get(pk=row.pk).moves == 7 and row.moves == 1


def test_it_does_not_happen_inside_a_transaction(row: Plan) -> None:
    provider = Provider()
    with transaction.atomic(), pytest.raises(InvalidOption, match="inside a transaction"):
        http.refresh_once(row, provider, fields=TOKEN)
    assert provider.asked == []
    assert not connection.in_atomic_block


@pytest.mark.parametrize("fields", ["title", (), ("titel",)])
def test_fields_are_those_of_the_model(row: Plan, fields: Any) -> None:
    with pytest.raises(InvalidOption, match="field"):
        http.refresh_once(row, Provider(), fields=fields)


def test_a_call_returns_no_other_fields(row: Plan) -> None:
    with pytest.raises(InvalidOption, match="'moves'"):
        http.refresh_once(row, Provider(title="a", moves=3), fields=TOKEN)
    assert stored(row) == ("access-0", "refresh-0")
