"""The calendar: what a brand's days show, and how posts move between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs import flow
from jobs.testing import freeze_clock
from publisher import brand_verbs, calendar, plan_verbs, plans, services
from publisher.models import Account, Brand, Member, Plan, Publication, Slot
from tests.publisher import factories

pytestmark = pytest.mark.django_db
URL = "/admin/publisher/calendar/"
WEEK = {"brand": "acme", "on": "2031-05-01"}
"""A Thursday."""


@pytest.fixture(autouse=True)
def clock() -> Iterator[Any]:
    with freeze_clock(datetime(2031, 4, 1, tzinfo=UTC)) as moment:
        yield moment


def slot(at: str = "2031-05-01T10:00", *, zone: str = "", title: str = "Bread") -> Slot:
    place = plans.Place("meta_facebook", at, zone=zone)
    made = plan_verbs.create_with("acme", title, {"caption": title}, [place], by="ada")
    return made.slots.get()


def scheduled(at: str = "2031-05-01T10:00") -> Slot:
    row = slot(at)
    plan_verbs.submit(row.plan_id, by="ada")
    plan_verbs.approve(row.plan_id, by="bob")
    plan_verbs.schedule(row.plan_id, by="ada")
    return Slot.objects.get(pk=row.pk)


def shown(brand: Brand, **how: Any) -> dict[str, list[str]]:
    """Return the entries of each day that has some."""
    first, end = calendar.week_of(date(2031, 5, 1))
    days = calendar.days_of(brand, first, end, each=how.pop("each", 50), **how)
    return {
        str(day.date): [f"{one.at:%H:%M} {one.title}" for one in day.entries]
        for day in days
        if day.entries
    }


def page(client: Client, **given: str) -> str:
    answer = client.get(URL, {**WEEK, **given})
    assert answer.status_code == 200
    return answer.content.decode()


def move(client: Client, row: Slot | Publication, day: str, brand: str = "acme") -> Any:
    what = "slot" if isinstance(row, Slot) else "publication"
    given = {"what": what, "id": str(row.pk), "day": day, "back": f"{URL}?brand=acme"}
    return client.post(f"{URL}move/?brand={brand}", given, follow=True)


def test_days_are_those_of_the_brand(brand: Brand, accounts: dict[str, Account]) -> None:
    slot("2031-05-01T23:30:00+00:00")  # 01:30 on the next day in Rome
    services.schedule(
        accounts["meta_instagram"], factories.post("meta_instagram", "Rolls"),
        datetime(2031, 5, 1, 8, tzinfo=UTC),
    )  # fmt: skip
    assert shown(brand) == {"2031-05-01": ["10:00 Rolls"], "2031-05-02": ["01:30 Bread"]}
    assert shown(brand, channel="meta_facebook") == {"2031-05-02": ["01:30 Bread"]}
    assert shown(brand, with_posts=False) == {"2031-05-02": ["01:30 Bread"]}
    assert shown(services.create_brand("nova", "Nova")) == {}


def test_a_post_is_shown_once_and_a_cancelled_one_not_at_all(
    brand: Brand, accounts: dict[str, Account]
) -> None:
    row = scheduled()
    assert shown(brand) == {"2031-05-01": ["10:00 Bread"]}
    plan_verbs.move_slot(row.pk, "2031-05-02T10:00", by="ada")
    assert Publication.objects.count() == 2
    assert shown(brand) == {"2031-05-02": ["10:00 Bread"]}
    made = services.schedule(
        accounts["meta_facebook"], factories.post("meta_facebook", "Rolls"),
        datetime(2031, 4, 30, 8, tzinfo=UTC),
    ).row  # fmt: skip
    services.cancel(made, by="ada", reason="a typo")
    assert "2031-04-30" not in shown(brand)


def test_a_full_day_says_how_many_more_it_has(brand: Brand, accounts: dict[str, Account]) -> None:
    for minute in range(4):
        slot(f"2031-05-01T10:0{minute}")
    slot("2031-05-02T10:00")
    first, end = calendar.week_of(date(2031, 5, 1))
    days = {day.date.day: day for day in calendar.days_of(brand, first, end, each=2)}
    assert [len(days[1].entries), days[1].more, days[2].more] == [2, 2, 0]


def test_months_begin_on_a_monday_and_are_whole() -> None:
    assert calendar.month_of(date(2031, 5, 31)) == (date(2031, 4, 28), date(2031, 6, 2))
    assert calendar.month_of(date(2032, 2, 29)) == (date(2032, 1, 26), date(2032, 3, 1))
    assert calendar.week_of(date(2031, 5, 4)) == (date(2031, 4, 28), date(2031, 5, 5))


def test_windows_and_free_posting_times_are_shown(
    admin_client: Client, brand: Brand, accounts: dict[str, Account]
) -> None:
    brand_verbs.set_times(brand.pk, "09:00, thu 10:00, 23:00", by="root", reason="new")
    brand_verbs.add_window(brand.pk, time(22), time(6), by="root", reason="night", days="thu")
    closed = "kind:publisher.meta_instagram"
    flow.create_blackout(
        closed, time(8), time(20), by="root", reason="t", days=[3], time_zone="Europe/Rome"
    )
    slot()
    brand.refresh_from_db()
    first, end = calendar.week_of(date(2031, 5, 1))
    days = {one.date.day: one for one in calendar.days_of(brand, first, end, each=9)}
    assert days[1].closed == [
        ("08:00", "20:00", closed), ("22:00", "24:00", "tenant:brand:acme"),
    ]  # fmt: skip
    assert days[2].closed == [("00:00", "06:00", "tenant:brand:acme")]
    assert [f"{at:%H:%M}" for at in days[1].free] == ["09:00"]  # 10:00 is taken, 23:00 is closed
    assert [f"{at:%H:%M}" for at in days[2].free] == ["09:00", "23:00"]
    text = page(admin_client)
    assert "10:00</time>" in text and "+ 09:00</a>" in text
    assert re.search("Closed 08:00.20:00, Instagram.*Closed 22:00.24:00, this brand", text, re.S)
    link = re.findall(r'href="([^"]*do/create/[^"]*2031-05-02T09[^"]*)"', text)[0]
    form = admin_client.get(link.replace("&amp;", "&")).content.decode()
    assert 'value="2031-05-02T09:00"' in form and 'value="acme" selected' in form


def test_what_falls_into_a_window_waits(brand: Brand, accounts: dict[str, Account]) -> None:
    scheduled()
    first, end = calendar.week_of(date(2031, 5, 1))

    def waits() -> bool:
        days = calendar.days_of(brand, first, end, each=9)
        [found] = [entry.waits for day in days for entry in day.entries]
        return found

    flow.create_blackout("kind:publisher.x", time(0), time(0), by="t", reason="t")
    assert not waits()
    flow.create_blackout("queue:publisher", time(8), time(9), by="t", reason="t")
    assert waits()


def test_a_moved_post_keeps_its_hour(
    admin_client: Client, brand: Brand, accounts: dict[str, Account]
) -> None:
    row = scheduled("2031-10-20T10:00")
    text = move(admin_client, row, "2031-10-28").content.decode()  # in winter time
    assert "Moved to Oct. 28, 2031." in text
    row.refresh_from_db()
    assert (row.local_time, row.at) == (
        "2031-10-28T10:00:00", datetime(2031, 10, 28, 9, tzinfo=UTC),
    )  # fmt: skip
    assert row.plan.status == "scheduled"
    assert row.publication is not None and row.publication.scheduled_at == row.at
    made = services.schedule(
        accounts["meta_instagram"], factories.post("meta_instagram"), row.at - timedelta(days=20)
    ).row
    answer = move(admin_client, made, "2031-10-29")
    [post] = Publication.objects.filter(channel="meta_instagram", status="pending")
    assert post.scheduled_at == datetime(2031, 10, 29, 10, tzinfo=UTC)
    assert answer.redirect_chain[-1][0].endswith(f"#e-{post.pk}")


def test_a_skipped_hour_is_moved_with_a_warning(
    admin_client: Client, brand: Brand, accounts: dict[str, Account]
) -> None:
    row = slot("2032-03-27T02:30")
    assert "The clocks skip this time" in move(admin_client, row, "2032-03-28").content.decode()
    row.refresh_from_db()
    assert row.local_time == "2032-03-28T03:30:00"


def test_what_cannot_move_says_why(
    admin_client: Client, brand: Brand, accounts: dict[str, Account]
) -> None:
    row = slot()
    assert "lies in the past" in move(admin_client, row, "2031-03-01").content.decode()
    assert "Choose a day." in move(admin_client, row, "tomorrow").content.decode()
    services.create_brand("nova", "Nova")
    assert move(admin_client, row, "2031-05-02", brand="nova").status_code == 404
    assert move(admin_client, row, "2031-05-02", brand="none").status_code == 404
    assert admin_client.get(f"{URL}move/").status_code == 405
    row.refresh_from_db()
    assert row.local_time == "2031-05-01T10:00:00"
    answer = admin_client.post(
        f"{URL}move/?brand=acme",
        {"what": "slot", "id": str(row.pk), "day": "2031-05-02", "back": "https://evil.test/"},
    )
    assert answer["Location"].startswith(URL)


def test_only_editors_move(client: Client, brand: Brand, accounts: dict[str, Account]) -> None:
    row = slot()
    user = User.objects.create_user("eve", is_staff=True)
    names = ["view_plan", "schedule_plan"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client.force_login(user)
    member = Member.objects.create(brand=brand, tenant=brand.tenant, user=user, role="viewer")
    assert '<form method="post"' not in page(client).split("pc-days")[1]
    assert move(client, row, "2031-05-02").status_code == 403
    member.role = "editor"
    member.save()
    assert "draggable" in page(client)
    assert move(client, row, "2031-05-02").status_code == 200
    assert Slot.objects.get().local_time == "2031-05-02T10:00:00"
    user.user_permissions.clear()
    assert client.get(URL).status_code == 403


def test_another_brands_calendar_is_not_there(
    client: Client, brand: Brand, accounts: dict[str, Account], settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "SCOPE": ["publisher.access.scope"]}
    row, nova = slot(), services.create_brand("nova", "Nova")
    user = User.objects.create_user("eve", is_staff=True)
    names = ["view_plan", "view_publication", "schedule_plan"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    Member.objects.create(brand=nova, tenant=nova.tenant, user=user, role="manager")
    client.force_login(user)
    assert client.get(URL, WEEK).status_code == 404
    text = client.get(URL).content.decode()
    assert "Calendar of Nova" in text and "Acme" not in text and "no account yet" in text
    assert move(client, row, "2031-05-02", brand="nova").status_code == 404
    assert move(client, row, "2031-05-02").status_code == 404


def test_empty_pages_say_what_to_do(admin_client: Client) -> None:
    assert "There is no brand yet" in admin_client.get(URL).content.decode()
    services.create_brand("acme", "Acme")
    assert "Connect one on the page of the brand" in page(admin_client)
    plan_verbs.create_with("acme", "An idea", {"caption": "?"}, [], by="ada")
    text = page(admin_client, view="month", on="9999-99-99", channel="fax")
    assert "An idea" in text and "Drafts without a time" in text and "April 2031" in text


@pytest.mark.parametrize("view", ["week", "month"])
def test_a_page_asks_little(
    admin_client: Client, brand: Brand, accounts: dict[str, Account], view: str
) -> None:
    scheduled()
    for day in range(1, 8):
        slot(f"2031-05-0{day}T11:00", title=f"Plan {day}")
        services.schedule(
            accounts["meta_facebook"], factories.post("meta_facebook"),
            datetime(2031, 5, day, 12, tzinfo=UTC),
        )  # fmt: skip
    page(admin_client)
    with CaptureQueriesContext(connection) as asked:
        assert page(admin_client, view=view).count("pc-title") == (9 if view == "week" else 15)
    assert len(asked) <= 20, [one["sql"][:90] for one in asked]
    assert Plan.objects.count() == 8
