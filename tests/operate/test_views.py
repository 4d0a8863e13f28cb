"""Saved views: whose they are, who sees them, and what they may say."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.errors import Denied, InvalidOption, QueryError, UnknownTarget
from jobs.models import Audit, SavedView
from jobs.operate import views
from jobs.principals import ALL, Principal, Scope

pytestmark = pytest.mark.django_db


def person(name: str, *, number: str = "", without: str = "", tenants: Any = None) -> Principal:
    scope = Scope(None if tenants is None else frozenset(tenants))
    return Principal(name, "admin", ALL - {without}, scope, user_id=number)


ADA, BEN = person("ada", number="1"), person("ben", number="2")


def names(who: Principal) -> list[str]:
    return [view.name for view in views.every(by=who)]


def test_one_s_own_views_are_nobody_else_s() -> None:
    mine = views.save("late", "is:late", by=ADA, tab="waiting")
    assert names(ADA) == ["late"] and names(BEN) == []
    assert (mine.query, mine.tab, mine.owner, mine.is_shared) == (
        "is:late",
        "waiting",
        "ada",
        False,
    )
    for act in (views.edit, views.remove):
        with pytest.raises(UnknownTarget):
            act(mine.pk, by=BEN)
    with pytest.raises(UnknownTarget):
        views.find(mine.pk, by=BEN)
    assert SavedView.objects.filter(name="late").exists()


def test_another_person_of_the_same_name_is_another() -> None:
    views.save("late", by=ADA)
    assert names(person("ada", number="3")) == []
    key = Principal("ada", "api", ALL, key="abc")
    assert names(key) == []
    assert len({who.identity for who in (ADA, key, Principal("ada"))}) == 3


def test_a_shared_view_is_seen_by_those_who_see_its_tenant() -> None:
    views.save("everybody's", by=ADA, shared=True)
    views.save("acme's", by=ADA, shared=True, tenant="acme")
    assert names(BEN) == ["acme's", "everybody's"]
    assert names(person("eve", number="4", tenants=["acme"])) == ["acme's"]
    assert names(person("eve", number="4", tenants=["other"])) == []


def test_who_sees_some_tenants_shares_with_those() -> None:
    eve = person("eve", number="4", tenants=["acme"])
    views.save("mine", by=eve)
    views.save("ours", by=eve, shared=True, tenant="acme")
    for tenant in ("", "other"):
        with pytest.raises(UnknownTarget):
            views.save("theirs", by=eve, shared=True, tenant=tenant)
    assert names(eve) == ["ours", "mine"]


def test_sharing_needs_its_permission() -> None:
    eve = person("eve", number="4", without="share_view")
    mine = views.save("mine", by=eve)
    shared = views.save("ours", by=ADA, shared=True)
    calls: list[Any] = [
        lambda: views.save("other", by=eve, shared=True),
        lambda: views.edit(mine.pk, by=eve, shared=True),
        lambda: views.edit(shared.pk, by=eve, query="is:late"),
        lambda: views.remove(shared.pk, by=eve),
    ]
    for call in calls:
        with pytest.raises(Denied, match="share_view"):
            call()
    assert list(Audit.objects.filter(actor="eve").order_by("at", "id").values_list(
        "action", "outcome")) == [("view.save", "done"), ("view.save", "denied"),
        ("view.edit", "denied"), ("view.edit", "denied"), ("view.remove", "denied")]  # fmt: skip
    views.edit(mine.pk, by=eve, name="better")
    assert names(eve) == ["ours", "better"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"name": " "}, InvalidOption), ({"name": "x" * 81}, InvalidOption),
        ({"name": "taken"}, InvalidOption), ({"query": "knd:x"}, QueryError),
        ({"query": "x" * 2001}, InvalidOption), ({"tab": "lost"}, InvalidOption),
        ({"shared": "yes"}, InvalidOption),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_not_kept(given: dict[str, Any], error: type[Exception]) -> None:
    views.save("taken", by=ADA)
    other = views.save("other", "is:late", by=ADA)
    with pytest.raises(error):
        views.save(**{"name": "new", **given}, by=ADA)
    with pytest.raises(error):
        views.edit(other.pk, **given, by=ADA)
    assert names(ADA) == ["other", "taken"]
    assert views.find(other.pk, by=ADA).query == "is:late"


def test_nobody_keeps_more_than_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST", 2)
    views.save("one", by=ADA)
    views.save("two", by=ADA)
    with pytest.raises(InvalidOption, match="remove one"):
        views.save("three", by=ADA)
    views.save("one", by=BEN)


def test_the_audit_shows_what_was_changed() -> None:
    view = views.save("late", "is:late", by=ADA)
    views.edit(view.pk, by=ADA, query="is:stale")
    views.remove(view.pk, by=ADA)
    rows = Audit.objects.order_by("at", "id")
    assert [row.detail["after"].get("query") for row in rows] == ["is:late", "is:stale", None]
    assert [row.target_id for row in rows] == [str(view.pk)] * 3
