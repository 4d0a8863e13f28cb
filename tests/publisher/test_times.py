"""Posting times of a brand, the next free one, publishing at once, and windows of a brand."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

import pytest
from django.test import Client

from config.standins.publisher import Standin
from jobs import flow
from jobs.testing import freeze_clock, run_jobs
from publisher import brand_verbs, clock, plan_verbs, services, times, windows
from publisher.errors import Refused
from publisher.models import Account, Brand, Plan, Slot
from tests.api.conftest import Caller
from tests.publisher.test_plans import approved, made, relay, slot_of

pytestmark = pytest.mark.django_db
MONDAY = datetime(2031, 5, 5, 6, 30, tzinfo=UTC)
"""Half past eight in Rome."""


def set_times(brand: Brand, text: str) -> None:
    brand_verbs.set_times(brand.pk, text, by="ann", reason="new")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("9:00", None),
        ("18:30, 09:00", "09:00, 18:30"),
        ("Mon-Wed 09:00\nfri 12:15; fri 12:15", "mon tue wed 09:00, fri 12:15"),
        ("fri - mon 08:00", "sun mon fri sat 08:00"),
        ("sat sun 10:00", "sun sat 10:00"),
        ("someday 09:00", None),
        ("24:00", None),
        ("09:00 mon", None),
    ],
)
def test_posting_times_are_read_and_written_alike(
    text: str, expected: str | None, brand: Brand
) -> None:
    if expected is None:
        with pytest.raises(Refused, match="is no posting time"):
            set_times(brand, text)
        return
    set_times(brand, text)
    brand.refresh_from_db()
    assert times.words(brand) == expected
    assert times.parse(expected) == brand.posting_times


def test_the_next_free_time_is_open_and_has_no_other_post(accounts: dict[str, Account]) -> None:
    account = accounts["meta_facebook"]
    set_times(account.brand, "09:00, mon-fri 18:30")
    account.brand.refresh_from_db()
    with freeze_clock(MONDAY):
        assert times.next_free(account).local == "2031-05-05T09:00:00"
        plan_id = made("meta_facebook", at="next")
        assert slot_of(plan_id).local_time == "2031-05-05T09:00:00"
        assert times.next_free(account).local == "2031-05-05T18:30:00"
        other = accounts["google_business"]
        other.brand = account.brand
        assert times.next_free(other).local == "2031-05-05T09:00:00"
        brand_verbs.add_window(
            account.brand_id, time(18), time(20), by="ann", reason="quiet", days="mon"
        )
        assert times.next_free(account).local == "2031-05-06T09:00:00"


def test_two_slots_of_one_account_get_two_times(accounts: dict[str, Account]) -> None:
    set_times(accounts["meta_facebook"].brand, "09:00")
    with freeze_clock(MONDAY):
        plan_id = made("meta_facebook", "meta_facebook", "google_business", at="next")
        found = Slot.objects.filter(plan=plan_id).order_by("channel", "at")
        assert [(one.channel, one.local_time[:10]) for one in found] == [
            ("google_business", "2031-05-05"), ("meta_facebook", "2031-05-05"),
            ("meta_facebook", "2031-05-06"),
        ]  # fmt: skip
        plan_verbs.move_slot(found[0].pk, "next", by="ada")


def test_without_posting_times_next_is_refused(accounts: dict[str, Account]) -> None:
    with pytest.raises(Refused, match="has no posting times"):
        made("meta_facebook", at="next")


def test_a_plan_is_published_at_once(accounts: dict[str, Account], standin: Standin) -> None:
    with freeze_clock(MONDAY) as moment:
        plan_id = approved("meta_facebook", "google_business", at="2031-06-01T10:00")
        plan_verbs.schedule(plan_id, by="ada", at_once=True)
        moment.tick(3)
        run_jobs(["publisher"])
        relay()
        assert Plan.objects.get(pk=plan_id).status == "published"
        assert (clock.now() - slot_of(plan_id).at).total_seconds() <= 3


def test_publishing_at_once_may_take_its_time(
    accounts: dict[str, Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slot is brought forward when its turn comes, so that none lies in the past by then."""
    plan_id = approved("meta_facebook", "wordpress_blog", "google_business", at="2031-06-01T10:00")
    with freeze_clock(MONDAY) as moment:
        real = services.schedule

        def slow(*args: Any, **how: Any) -> services.Enqueued:
            made = real(*args, **how)
            moment.tick(5)
            return made

        monkeypatch.setattr(services, "schedule", slow)
        plan_verbs.schedule(plan_id, by="ada", at_once=True)
    assert Plan.objects.get(pk=plan_id).status == "scheduled"


def test_a_window_of_a_brand_closes_that_brand_alone(accounts: dict[str, Account]) -> None:
    account = accounts["meta_facebook"]
    number = brand_verbs.add_window(
        account.brand_id, time(22), time(6), by="ann", reason="night", days="fri"
    )
    friday = datetime(2031, 5, 9, 21, 0, tzinfo=UTC)  # 23:00 in Rome
    assert times.test(account, friday).in_blackout
    assert times.test(account, friday.replace(day=10, hour=0)).in_blackout
    assert not times.test(account, friday.replace(day=9, hour=0)).in_blackout
    assert flow.closed("tenant:brand:other", friday) is None
    [row] = windows.of_brand(account.brand)
    assert windows.words(row) == "fri 22:00-06:00 Europe/Rome"
    with pytest.raises(Refused, match="no such window"):
        brand_verbs.remove_window(account.brand_id, number + 1, by="ann", reason="x")
    brand_verbs.remove_window(account.brand_id, number, by="ann", reason="day")
    assert not times.test(account, friday).in_blackout


def test_wrong_days_and_zones_are_refused(brand: Brand) -> None:
    for wrong in ({"days": "someday"}, {"time_zone": "Rome"}):
        with pytest.raises(Refused):
            brand_verbs.add_window(
                brand.pk, time(22), time(6), by="ann", reason="night", **wrong
            )  # fmt: skip
    with pytest.raises(Refused):
        brand_verbs.set_times(brand.pk, "09:00", by="ann", reason="x", time_zone="Rome")
    assert not windows.of_brand(brand).exists()


def test_a_brand_page_shows_and_removes_windows(
    accounts: dict[str, Account], admin_client: Client
) -> None:
    brand = accounts["meta_facebook"].brand
    windows.replace(
        [windows.Window(channel="tiktok", start="01:00", end="02:00")], by="t", reason="t"
    )
    path = f"/admin/publisher/brand/{brand.pk}"
    given = {"start": "22:00", "end": "06:00", "days": "fri", "reason": "night"}
    answer = admin_client.post(f"{path}/do/add-window/", given)
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    set_times(brand, "09:00")
    page = admin_client.get(f"{path}/change/").content.decode()
    assert "fri 22:00-06:00 Europe/Rome" in page and "01:00-02:00 UTC (TikTok)" in page
    assert "09:00" in admin_client.get(f"{path}/do/set-times/").content.decode()
    [row] = windows.of_brand(brand)
    given = {"window": str(row.pk), "reason": "day"}
    assert admin_client.post(f"{path}/do/remove-window/", given).status_code == 302
    assert not windows.of_brand(brand).exists()
    account = f"/admin/publisher/account/{accounts['tiktok'].pk}/change/"
    assert "09:00 Europe/Rome" in admin_client.get(account).content.decode()


def test_programs_set_times_and_plan_by_them(accounts: dict[str, Account]) -> None:
    brand = accounts["meta_facebook"].brand
    caller = Caller(tenants=["brand:acme"])
    given = {"times_of_day": "09:00", "reason": "new"}
    answer = caller("POST", f"/publisher/brands/{brand.pk}/set-times", given)
    assert answer.status_code == 200, answer.content
    with freeze_clock(MONDAY):
        body = {
            "brand": "acme", "title": "Bread", "content": {"caption": "Bread"},
            "slots": [{"channel": "meta_facebook", "at": "next"}],
        }  # fmt: skip
        made = caller("POST", "/publisher/plans", body)
        assert made.status_code == 201, made.content
        assert made.data["slots"][0]["local_time"] == "2031-05-05T09:00:00"


def test_a_slot_is_added_at_the_next_free_time(accounts: dict[str, Account]) -> None:
    set_times(accounts["meta_facebook"].brand, "09:00")
    with freeze_clock(MONDAY):
        plan_id = made("meta_facebook", at="next")
        plan_verbs.add_slot(plan_id, "meta_facebook", "next", by="ada")
        found = Slot.objects.filter(plan=plan_id).order_by("at")
        assert [one.local_time[:10] for one in found] == ["2031-05-05", "2031-05-06"]
        assert not any(times.is_free(one.account, one.at) for one in found)
