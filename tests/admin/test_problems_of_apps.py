"""Problems that apps add to the first page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

import jobs.problems
from jobs.errors import ConfigError
from jobs.operate import overview
from jobs.principals import Principal
from jobs.problems import Problem, count, problem

pytestmark = pytest.mark.django_db
OVERVIEW = "/admin/jobs/overview/"


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what the test declares."""
    monkeypatch.setattr(jobs.problems, "_declared", {})


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


def declare() -> None:
    @problem(
        "shop.orders", text=lambda one: f"<b>{one.count}</b> orders", page="jobs_job?tab=dead",
        link="Decide",
    )  # fmt: skip
    def orders(who: Principal) -> Iterator[Problem]:
        if who.may("view_job"):
            yield Problem("shop.orders", "Orders in doubt: 7", count=count(7))


def test_it_is_shown_in_the_words_of_the_app_with_a_link(root: Client) -> None:
    declare()
    text = root.get(OVERVIEW).content.decode()
    assert "&lt;b&gt;7&lt;/b&gt; orders" in text, "the text is escaped"
    assert 'href="/admin/jobs/job/?tab=dead"' in text and "Decide" in text
    [found] = [one for one in overview.overview(by="tests").problems if one.code == "shop.orders"]
    assert found.text == "Orders in doubt: 7"


def test_it_is_not_shown_to_those_who_may_not_see_it(client: Client) -> None:
    declare()
    client.force_login(User.objects.create_user("ada", is_staff=True))
    assert "orders" not in client.get(OVERVIEW).content.decode()


@pytest.mark.parametrize("sql", [False, True])
def test_one_that_fails_is_logged_and_left_out(
    root: Client, sql: bool, caplog: pytest.LogCaptureFixture
) -> None:
    @problem("shop.broken", text=str)
    def broken(who: Principal) -> Iterator[Problem]:
        if sql:
            list(User.objects.raw("SELECT nothing FROM nowhere"))
        raise ValueError("broken")

    declare()
    answer = root.get(OVERVIEW)
    assert answer.status_code == 200 and "orders" in answer.content.decode()
    assert "problem shop.broken could not be looked for" in caplog.text


def test_a_code_names_its_app() -> None:
    with pytest.raises(ConfigError, match=r"begin the code with the app"):
        problem("stock", text=str)
