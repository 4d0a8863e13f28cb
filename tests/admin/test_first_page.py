"""The first page tells what the platform knows, and each of its numbers is that of a list."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

import jobs
from jobs.admin.components import time_tag
from jobs.engine import leases, rq, sql
from jobs.models import Breaker, DeadLetter, Effect
from jobs.operate import overview, pauses, schedules, ways
from jobs.testing import freeze_clock, run_jobs
from tests.jobs.factories import a_claim, a_job, an_executor, ended, settle
from tests.operate.test_depths import held, late, plant
from tests.operate.test_overview import minute
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
OVERVIEW = "/admin/jobs/overview/"
ME = "ada"


def text_of(client: Client, url: str = OVERVIEW) -> str:
    return client.get(url).content.decode()


def strip_of(client: Client) -> list[str]:
    """The problems on the first page, as plain text."""
    found = re.findall(r'<div class="jd-problem[^>]*>(.*?)</div>', text_of(client), re.S)
    return [html.unescape(" ".join(re.sub(r"<[^>]+>", "", one).split())) for one in found]


def linked_numbers(text: str) -> list[tuple[str, int]]:
    """Every link of the page that is a number, or begins with one, and the number."""
    found = re.findall(r'<a[^>]*href="([^"]+)"[^>]*>\s*(?:<b[^>]*>)?([\d,]+)</', text)
    return [(html.unescape(url), int(number.replace(",", ""))) for url, number in found]


def counted(client: Client, url: str) -> int:
    """How many the list says that it has."""
    text = text_of(client, url)
    if "/deadletter/" in url:
        return len(set(re.findall(r"/deadletter/(\d+)/change/", text)))
    tabs = text.split('class="jd-tabs"')[1]
    [current] = re.findall(r'aria-current="page">(.*?)</a>', tabs, re.S)
    [number] = re.findall(r'jd-count">([\d,]+)<', current)
    return int(number)


def letters(n: int) -> None:
    for _ in range(n):
        settle(ended(a_claim(queue="lanes"), "unrecoverable"))


def test_each_number_equals_the_count_of_the_list_behind_it(admin_client: Client) -> None:
    plant()
    letters(3)
    found = linked_numbers(text_of(admin_client))
    assert len(found) > 25
    names = {"waiting": 10, "running": 2, "retrying": 2, "scheduled": 2}
    tiles = {url: number for url, number in found if "q=" not in url}
    assert {f"/admin/jobs/job/?tab={name}": n for name, n in names.items()} == {
        url: n for url, n in tiles.items() if "/job/" in url
    }
    assert tiles["/admin/jobs/deadletter/"] == DeadLetter.objects.filter(state="open").count() == 3
    for url, number in found:
        assert counted(admin_client, url) == number, url
    for url, number in linked_numbers(text_of(admin_client, "/admin/jobs/queue/lanes/change/")):
        assert counted(admin_client, url) == number, url


def test_the_oldest_wait_is_the_one_that_every_face_tells(admin_client: Client) -> None:
    plant()
    rows = overview.overview(by=ME).queues
    shown = re.findall(r'data-label="Oldest wait">(.*?)</td>', text_of(admin_client))
    listed = re.findall(
        r'data-label="Oldest wait">(.*?)</td>', text_of(admin_client, "/admin/jobs/queue/")
    )
    assert shown == listed == [time_tag(row.depth.oldest_at, "for") for row in rows]
    assert len([one for one in shown if "<time" in one]) >= 5


def test_a_number_of_attempts_leads_to_no_list_of_jobs(admin_client: Client) -> None:
    minute("succeeded", 7)
    text = text_of(admin_client)
    [tile] = re.findall(r'<(\w+) class="jd-card jd-tile"[^>]*><b class="">7</b>', text)
    assert tile == "div"


# ---- what is wrong


def everything_wrong() -> None:
    a_job(queue="archive")
    late(a_job(), 900)
    minute("succeeded", 15)
    minute("failed", 15)
    pauses.pause("kind:test.echo", by=ME, reason="the disk is full")
    pauses.pause("queue:closed", by=ME, reason="the printer is on fire")
    Breaker.objects.create(name="meta", state="open", last_error="Timeout: 30",
                           opened_at=timezone.now())  # fmt: skip
    Effect.objects.create(job_id=a_job(), key="smtp", state="in_doubt", token=jobs.Job().pk,
                          attempt=1, request={})  # fmt: skip
    schedules.create("nightly", Noop(), cron="0 3 * * *", by=ME, reason="a test")
    schedules.create("broken", Noop(), cron="0 3 * * *", by=ME, reason="a test")
    sql.run(
        "UPDATE jobs_schedule SET next_slot = next_slot - interval '2 d' WHERE name = 'nightly'"
    )
    sql.run("UPDATE jobs_schedule SET error = 'no such kind' WHERE name = 'broken'")
    jobs.emit("order.paid", {})
    sql.run("UPDATE jobs_outbox SET occurred_at = occurred_at - interval '5 min'")
    sql.run("INSERT INTO jobs_outbox (topic, payload, state) VALUES ('a.b', '{}', 'pending')")
    sql.run("UPDATE jobs_outbox SET state = 'parked', moved_by = 'x' WHERE topic = 'a.b'")
    for worker, dead in (("w1", "NULL"), ("w2", "jobs_clock()")):
        sql.run(
            "INSERT INTO jobs_lease (owner, worker, queues, until, dead_at) VALUES "  # noqa: S608
            f"(gen_random_uuid(), %s, '{{default}}', jobs_clock() - interval '90 s', {dead})",
            [worker],
        )
    rq.client().delete(rq.dispatchers_key())


def test_the_page_shows_every_problem_that_is_found(admin_client: Client) -> None:
    everything_wrong()
    codes = {p.code for p in overview.overview(by=ME).problems}
    assert codes >= {
        "no_worker", "long_wait", "closed", "failures", "circuit", "silent_worker", "lost_worker",
        "schedule", "outbox_lag", "outbox_stuck", "no_dispatcher", "no_scheduler", "no_relay",
        "doubt",
    }  # fmt: skip
    found = strip_of(admin_client)
    assert len(found) == len(overview.overview(by=ME).problems)
    for words in (
        "Queue archive has 1 waiting job and no worker. See the queue",
        "In queue default a job has been waiting for",
        "50 % of the last attempts failed; usually it is 0 %. See what failed",
        "Kind “test.echo” is paused by ada until it is resumed: the disk is full See the pauses",
        "Queue “closed” is paused by ada until it is resumed: the printer is on fire See the queue",
        "Circuit meta has been open for",
        "Worker w1 has fallen silent: its lease ended",
        "Worker w2 was lost",
        "1 effect may or may not have happened. Decide",
        "Schedule nightly has missed its slot of",
        "Schedule broken makes no job: no such kind See the schedule",
        "An event has waited in the outbox for",
        "Subscribers have refused events, or events are parked. See the outbox",
        "No dispatcher is running",
        "No scheduler is running",
        "No relay is running",
    ):
        assert any(one.startswith(words) for one in found), (words, found)


def test_each_problem_leads_to_a_page_that_is_there(admin_client: Client) -> None:
    everything_wrong()
    text = text_of(admin_client)
    urls = [
        html.unescape(url)
        for part in re.findall(r'<div class="jd-problem[^>]*>(.*?)</div>', text, re.S)
        for url in re.findall(r'href="([^"]+)"', part)
    ]
    assert len(urls) > 12
    for url in urls:
        assert admin_client.get(url).status_code == 200, url


def test_a_lost_worker_stays_with_links_to_the_jobs_it_held(admin_client: Client) -> None:
    owner = an_executor()
    job = a_claim(owner=owner).id
    sql.run("UPDATE jobs_lease SET until = jobs_clock() - interval '1 s' WHERE owner = %s", [owner])
    leases.mark_lapsed()
    leases.reap("the-dispatcher")
    text = text_of(admin_client)
    assert "Worker <b>test-worker</b> was lost" in text
    assert f'It held <a href="/admin/jobs/job/{job}/change/">test.noop' in text


def test_targets_of_the_settings_reach_the_page(admin_client: Client, settings: Any) -> None:
    an_executor()
    late(a_job(), 90)
    jobs.emit("order.paid", {})
    sql.run("UPDATE jobs_outbox SET occurred_at = occurred_at - interval '45 s'")

    def told() -> list[bool]:
        found = strip_of(admin_client)
        words = ("In queue default", "An event has waited")
        return [any(one.startswith(start) for one in found) for start in words]

    assert told() == [True, True]
    settings.JOBS = {**settings.JOBS, "WAIT_TARGET": 600, "OUTBOX_LAG_TARGET": 600}
    assert told() == [False, False]


@pytest.mark.parametrize("scope", ["kind:test.noop", "tenant:acme", "key:agent"])
def test_a_job_that_a_pause_holds_raises_no_alarm(admin_client: Client, scope: str) -> None:
    an_executor("video")
    late(a_job(queue="video", tenant="acme", exclusive="agent"), 900)
    assert any("In queue video" in one for one in strip_of(admin_client))
    pauses.pause(scope, by=ME, reason="maintenance")
    assert not any("In queue video" in one for one in strip_of(admin_client))


def test_jobs_that_wait_for_a_key_are_waiting(admin_client: Client) -> None:
    for n in range(5):
        held("exclusive_key", f"k{n}")
    assert ("/admin/jobs/job/?tab=waiting", 5) in linked_numbers(text_of(admin_client))


# ---- searches that were cut short


def test_a_search_that_was_cut_short_is_no_verdict(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "BUDGET", 0.0)
    monkeypatch.setattr(ways, "FIRST_WALK", 2)
    monkeypatch.setattr(ways, "TOLD", 2)
    wanted = a_job("failed", priority=7)
    for _ in range(3):
        a_job("failed")
    text = text_of(admin_client, "/admin/jobs/job/?q=priority:7")
    assert "No job matches" not in text and "Nothing found so far" in text
    tabs = dict(re.findall(r'<a href="[^"]*"[^>]*>([\w ]+?) <span class="jd-count">(.*?)<', text))
    assert tabs["Failed"] == "?" and set(tabs.values()) == {"?"}
    [further] = re.findall(r'rel="next" href="([^"]+)">Search further', text)
    found = text_of(admin_client, f"/admin/jobs/job/{html.unescape(further)}")
    assert str(wanted) in found and "Nothing found so far" not in found


def test_a_search_to_the_end_is_one(admin_client: Client) -> None:
    a_job()
    for query in ("priority:7", "kind:no.such", "tag:none"):
        text = text_of(admin_client, f"/admin/jobs/job/?q={query}")
        assert "No job matches" in text
        assert set(re.findall(r'jd-count">(.*?)<', text)) == {"0"}


# ---- schedules


@pytest.mark.parametrize("page", ["schedule/", "schedule/{}/change/"])
def test_a_paused_schedule_shows_no_runs_that_will_not_happen(
    admin_client: Client, page: str
) -> None:
    row = schedules.create("nightly", Noop(), cron="0 * * * *", by=ME, reason="a test")
    url = f"/admin/jobs/{page.format(row.pk)}"

    def moments() -> set[str]:
        text = text_of(admin_client, url).split('class="jd"')[1]
        return {one for one in re.findall(r'<time datetime="([^"]+)"', text)
                if one[14:] == "00:00.000Z"}  # fmt: skip

    assert moments()
    schedules.pause("nightly", by=ME, reason="no")
    assert moments() == set() and "not while paused" in text_of(admin_client, url)
    schedules.resume("nightly", by=ME, reason="yes")
    end = timezone.now() + timedelta(days=3)
    schedules.pause("nightly", by=ME, reason="no", until=end)
    assert moments() and min(moments()) >= f"{end:%Y-%m-%dT%H:%M}"


# ---- batches


def test_an_open_batch_shows_no_share(admin_client: Client) -> None:
    with freeze_clock() as clock:
        batch = jobs.batch("Import")
        for _ in range(3):
            batch.add(Noop())
        run_jobs()
        clock.tick(5)
    for url in (OVERVIEW, "/admin/jobs/batch/", f"/admin/jobs/batch/{batch.id}/change/"):
        text = text_of(admin_client, url)
        [bar] = re.findall(r'<svg class="jd-meter[^>]*aria-label="3 ended so far.*?</svg>', text)
        assert "jd-indefinite" in bar and "jd-fill-green" not in bar, url
    batch.seal()
    assert "jd-indefinite" not in text_of(admin_client, f"/admin/jobs/batch/{batch.id}/change/")


def test_the_chart_says_that_the_first_minute_is_not_drawn_yet(admin_client: Client) -> None:
    page = "/admin/jobs/overview/"
    assert "Nothing happened in this time." in admin_client.get(page).content.decode()
    minute("succeeded", 7, back="0 min")
    shown = admin_client.get(page).content.decode()
    assert "The current minute is drawn when it is over." in shown
