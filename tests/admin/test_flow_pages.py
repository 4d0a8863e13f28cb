"""The plain lists, as a browser gets them."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

import jobs
from jobs.models import Breaker, Effect, Limiter, Slot
from jobs.operate import pauses
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
SECRET = "private words"


def an_effect() -> Any:
    job = jobs.enqueue(Noop())
    made = Effect.objects.create(
        job_id=job.id, key="smtp", state="in_doubt", token=uuid4(), attempt=1,
        request={"to": SECRET},
    )  # fmt: skip
    return made.pk


def a_pause() -> Any:
    return pauses.pause("queue:email", by="ada", reason="the disk is full").pk


def a_limit() -> Any:
    return Limiter.objects.create(scope="kind:test.noop", at_once=7).pk


def a_slot() -> Any:
    return Slot.objects.create(key="agent:42", job_id=jobs.enqueue(Noop()).id).pk


def a_breaker() -> Any:
    return Breaker.objects.create(name="meta:page:7", state="open", last_error="Timeout: 30").pk


def a_meter() -> Any:
    jobs.meter("binance", "6000/m").take()
    return "binance"


ROWS = {
    "effect": (an_effect, "smtp"),
    "pause": (a_pause, "the disk is full"),
    "limiter": (a_limit, "kind:test.noop"),
    "slot": (a_slot, "agent:42"),
    "breaker": (a_breaker, "meta:page:7"),
    "meter": (a_meter, "binance"),
}


def body(client: Client, url: str, status: int = 200) -> str:
    answer = client.get(url)
    assert answer.status_code == status
    return answer.content.decode()


@pytest.mark.parametrize("model", ROWS)
def test_the_list_shows_what_there_is_and_nothing_private(admin_client: Client, model: str) -> None:
    make, words = ROWS[model]
    make()
    text = body(admin_client, f"/admin/jobs/{model}/")
    assert words in text
    assert SECRET not in text


@pytest.mark.parametrize("model", ROWS)
def test_the_page_shows_one_and_lets_nobody_write(admin_client: Client, model: str) -> None:
    make, words = ROWS[model]
    key = quote(make())
    url = f"/admin/jobs/{model}/{key}/change/"
    text = body(admin_client, url)
    assert words in text
    assert 'name="_save"' not in text
    body(admin_client, f"/admin/jobs/{model}/add/", 403)
    body(admin_client, f"/admin/jobs/{model}/{key}/delete/", 403)
    assert admin_client.post(url, {}).status_code == 403


@pytest.mark.parametrize("model", ["effect"])
def test_the_page_shows_what_the_list_does_not(admin_client: Client, model: str) -> None:
    key = ROWS[model][0]()
    assert SECRET in body(admin_client, f"/admin/jobs/{model}/{key}/change/")


@pytest.mark.parametrize("model", ROWS)
def test_the_list_counts_nothing(admin_client: Client, model: str) -> None:
    ROWS[model][0]()
    body(admin_client, f"/admin/jobs/{model}/")  # content types and sessions are cached
    with CaptureQueriesContext(connection) as queries:
        body(admin_client, f"/admin/jobs/{model}/")
    asked = [query["sql"] for query in queries if f"jobs_{model}" in query["sql"]]
    assert asked
    for statement in asked:
        assert "COUNT(" not in statement and "DISTINCT" not in statement
    assert "LIMIT" in asked[0]  # which has found out that there is no more than one page


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("effect/?state=in_doubt", True),
        ("effect/?state=done", False),
        ("breaker/?state=open", True),
        ("breaker/?state=closed", False),
        ("limiter/?q=kind:test.noop", True),
        ("limiter/?q=kind:other", False),
    ],
)
def test_lists_are_filtered_and_searched(admin_client: Client, url: str, found: bool) -> None:
    ROWS[url.split("/")[0]][0]()
    assert ("data-jd-row" in body(admin_client, f"/admin/jobs/{url}")) is found


def test_an_effect_is_found_by_its_job_and_points_at_it(admin_client: Client) -> None:
    an_effect()
    job_id = Effect.objects.get().job_id
    assert f"/admin/jobs/job/{job_id}/change/" in body(
        admin_client, f"/admin/jobs/effect/?q={job_id}"
    )
    assert "smtp" not in body(admin_client, f"/admin/jobs/effect/?q={uuid4()}")


@pytest.mark.parametrize("model", ROWS)
def test_only_who_may_view_sees_anything(client: Client, model: str) -> None:
    user = User.objects.create_user("staff", is_staff=True)
    client.force_login(user)
    body(client, f"/admin/jobs/{model}/", 403)
    user.user_permissions.add(
        Permission.objects.get(content_type__app_label="jobs", codename=f"view_{model}")
    )
    body(client, f"/admin/jobs/{model}/")
