"""Blackout windows over the changes of the clock, and over the week."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from config.standins.publisher import Standin
from jobs.testing import freeze_clock, run_jobs
from publisher import services, times, windows
from publisher.models import Account, Brand, Publication
from tests.publisher import factories

pytestmark = pytest.mark.django_db
ROME = ZoneInfo("Europe/Rome")
SPRING = datetime(2031, 3, 30, tzinfo=ROME)
"""At two it is three."""
AUTUMN = datetime(2031, 10, 26, tzinfo=ROME)
"""At three it is two again."""


def close(start: str, end: str, days: list[int] | None = None, channel: str | None = None) -> None:
    window = windows.Window(
        start=start, end=end, timezone="Europe/Rome", days=days or [], channel=channel
    )
    windows.replace([window], by="tests", reason="a test")


def closed_minutes(account: Account, midnight: datetime) -> list[datetime]:
    """Every quarter of an hour from eight in the evening before that is closed."""
    begin = midnight.astimezone(ZoneInfo("UTC")) - timedelta(hours=4)
    moments = [begin + timedelta(minutes=15 * n) for n in range(4 * 14)]
    return [one for one in moments if times.test(account, one).in_blackout]


@pytest.mark.parametrize(("midnight", "hours"), [(SPRING, 7), (AUTUMN, 9)])
def test_a_night_ends_by_the_clock_on_the_wall(
    midnight: datetime, hours: int, accounts: dict[str, Account]
) -> None:
    close("22:00", "06:00")
    found = closed_minutes(accounts["meta_facebook"], midnight)
    assert len(found) == 4 * hours
    assert found[0].astimezone(ROME).hour == 22
    last = found[-1].astimezone(ROME)
    assert (last.hour, last.minute) == (5, 45)
    [after] = {times.test(accounts["meta_facebook"], one).next_possible for one in found[:3]}
    assert after is not None and after.astimezone(ROME).hour == 6


@pytest.mark.parametrize(("midnight", "minutes"), [(SPRING, 0), (AUTUMN, 120)])
def test_an_hour_that_is_skipped_closes_nothing_and_one_that_comes_twice_closes_both(
    midnight: datetime, minutes: int, accounts: dict[str, Account]
) -> None:
    close("02:00", "03:00")
    assert len(closed_minutes(accounts["meta_facebook"], midnight)) * 15 == minutes


@pytest.mark.parametrize(
    ("day", "hour", "appears"),
    [(7, 2, True), (7, 23, False), (8, 2, False), (8, 6, True), (8, 23, True)],
)
def test_friday_night_covers_the_early_hours_of_saturday_and_not_of_friday(
    day: int, hour: int, appears: bool, accounts: dict[str, Account], standin: Standin
) -> None:
    with freeze_clock(datetime(2031, 3, day, hour, tzinfo=ROME)):
        close("22:00", "06:00", [5], "meta_facebook")
        row = services.enqueue(accounts["meta_facebook"], factories.post("meta_facebook")).row
        run_jobs(["publisher"])
    row.refresh_from_db()
    assert (row.status == "completed") == appears and bool(standin.posts["page"]) == appears


def test_a_broken_site_of_one_brand_delays_no_other(
    brand: Brand, accounts: dict[str, Account], standin: Standin
) -> None:
    broken = factories.accounts(services.create_brand("other", "Other"), standin.url)
    site = broken["wordpress_blog"]
    site.base_url = "http://127.0.0.1:9"  # nobody listens there
    site.save()
    for number in range(25):
        services.enqueue(site, factories.post("wordpress_blog", f"number {number}"))
    mine = services.enqueue(accounts["wordpress_blog"], factories.post("wordpress_blog")).row
    with freeze_clock() as time:
        for _ in range(3):
            run_jobs(["publisher"])
            time.tick(30)
    mine.refresh_from_db()
    assert mine.status == "completed" and mine.attempts == 1
    assert not Publication.objects.filter(account=site, status="completed").exists()
