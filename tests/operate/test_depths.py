"""Waiting, running, oldest: one number each, whoever shows it, and that of the list behind it."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

import jobs
from jobs.engine import leases, sql
from jobs.metrics import numbers
from jobs.operate import depths, overview, pauses, search, ways
from jobs.operate.environment import findings
from jobs.principals import EVERYTHING, Principal, Scope
from jobs.testing import freeze_clock
from tests.jobs.factories import a_job, an_executor, claim_again, move
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db

ME = "test"
COUNTED = ("waiting", "running", "scheduled", "retrying")


def late(job: Any, seconds: int) -> None:
    """The job has been due for so long."""
    sql.run(
        "UPDATE jobs_job SET run_at = jobs_clock() - %s * interval '1 s', "
        "rank = rank - 1000 * %s WHERE id = %s",
        [seconds, seconds, job],
    )


def held(column: str, key: str, **options: Any) -> Any:
    job = a_job(**options)
    sql.run(f"UPDATE jobs_job SET wait = 2, {column} = %s WHERE id = %s", [key, job])  # noqa: S608
    return job


def retrying(**options: Any) -> Any:
    job = a_job(delay=60, **options)
    sql.run("UPDATE jobs_job SET attempt = 1, failures = 1 WHERE id = %s", [job])
    return job


def plant() -> None:
    """Jobs in every state and every kind of wait, in queues of each sort."""
    for state in ("blocked", "pending", "queued", "running", "succeeded", "failed", "cancelled",
                  "expired"):  # fmt: skip
        a_job(state)
    late(a_job(priority=9), 10)
    late(a_job("queued", queue="handed.out"), 50)
    late(a_job(tenant="acme", queue="lanes"), 20)
    late(a_job(tenant="zeta", queue="lanes"), 30)
    a_job("running", queue="lanes")
    a_job(queue="lanes", delay=60)
    retrying(queue="lanes")
    retrying(queue="retries.only")
    a_job(queue="later.only", delay=60)
    late(held("exclusive_key", "one", queue="held.only"), 40)
    held("limit_key", "two", queue="held.only")
    late(a_job(payload=Echo(text="x"), queue="paused.kind"), 70)
    pauses.pause("kind:test.echo", by=ME, reason="no")
    pauses.pause("queue:paused.only", by=ME, reason="no")
    an_executor("lanes", 3)


def by_list(name: str) -> dict[str, int]:
    """How many jobs of the queue each tab of the list shows."""
    found = search.counts(f"queue:{name}", by=ME)
    return {tab: found[tab].value for tab in COUNTED}


def of_cli() -> dict[str, dict[str, Any]]:
    out = StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", out)
        call_command("jobs", "queues", "list", "--json")
    return {row["name"]: row for row in json.loads(out.getvalue())}


def of_metrics() -> dict[tuple[str, ...], float]:
    return {(n.name, *n.labels): n.value for n in numbers.read()[0]}


def test_every_face_tells_the_numbers_of_the_list(admin_client: Client) -> None:
    plant()
    with freeze_clock() as clock:
        clock.tick(5)
        found = {row.name: row.depth for row in overview.overview(by=ME).queues}
        cli, metrics = of_cli(), of_metrics()
        api = {row["name"]: row for row in admin_client.get("/api/v1/queues").json()}
        first = admin_client.get("/api/v1/stats/overview").json()["queues"]
        listed = {row["name"]: row for row in first}
        one = {name: admin_client.get(f"/api/v1/queues/{name}").json() for name in found}
    assert {"handed.out", "lanes", "retries.only", "later.only", "held.only", "paused.only",
            "paused.kind", "default"} <= found.keys()  # fmt: skip
    assert found.keys() == cli.keys() == api.keys() == listed.keys()
    for name, depth in found.items():
        numbers_of = {key: getattr(depth, key).value for key in COUNTED}
        assert numbers_of == by_list(name), name
        assert {key: cli[name][key] for key in COUNTED} == numbers_of
        assert {key: api[name][key] for key in COUNTED} == numbers_of
        assert {key: listed[name][key]["value"] for key in COUNTED} == numbers_of
        assert api[name] == one[name]
        told = {state: metrics["jobs_queue_depth", name, state]
                for state in ("ready", "held", "queued", "scheduled")}  # fmt: skip
        later = told.pop("scheduled")
        assert sum(told.values()) == depth.waiting.value
        assert later == depth.scheduled.value + depth.retrying.value
        assert metrics["jobs_running", name] == depth.running.value
        assert metrics["jobs_slots_live", name] == cli[name]["slots"] == depth.slots
        seconds = {depth.oldest, cli[name]["oldest_seconds"], (api[name]["oldest_ms"] or 0) / 1000,
                   listed[name]["oldest_ms"] / 1000,
                   metrics["jobs_oldest_wait_seconds", name]}  # fmt: skip
        assert max(seconds) - min(seconds) < 0.01, seconds


def test_the_oldest_wait_is_that_of_any_job_that_waits() -> None:
    plant()
    found = {depth.name: depth for depth in depths.by_queue(None)}
    for name, seconds in (("handed.out", 50), ("lanes", 30), ("held.only", 40), ("default", 10)):
        assert seconds <= found[name].oldest < seconds + 5, name
    assert found["later.only"].oldest == 0 and found["later.only"].oldest_at is None


# ---- a queue exists


def test_a_queue_exists_as_soon_as_a_job_names_it(admin_client: Client) -> None:
    a_job(queue="archive")
    later, held_back = a_job(queue="later", delay=60), held("exclusive_key", "k", queue="held")
    for name in ("archive", "later", "held"):
        assert name in {depth.name for depth in depths.by_queue(None)}
        assert depths.exists(name, EVERYTHING)
        assert name in search.suggestions("queue", by=ME)
        assert admin_client.get(f"/admin/jobs/queue/{name}/change/").status_code == 200
    [doctor] = [one for one in findings() if one.name == "queues"]
    assert doctor.level == "warning" and "archive" in doctor.detail
    codes = {(p.code, p.subject) for p in overview.overview(by=ME).problems}
    assert ("no_worker", "archive") in codes and ("no_worker", "held") in codes
    assert ("no_worker", "later") not in codes
    page = admin_client.get("/admin/jobs/queue/").content.decode()
    assert "archive" in page
    for job in (later, held_back):
        move(job, "cancelled")


def test_a_queue_that_nothing_names_does_not_exist(admin_client: Client) -> None:
    assert not depths.exists("nowhere", EVERYTHING)
    assert admin_client.get("/admin/jobs/queue/nowhere/change/").status_code == 404
    assert admin_client.get("/api/v1/queues/nowhere").status_code == 404


def test_many_queues_take_one_statement(django_assert_num_queries: Any) -> None:
    jobs.enqueue_many([jobs.Draft(Noop(), queue=f"q{n}") for n in range(60)])
    with django_assert_num_queries(1):
        found = depths.by_queue(None)
    assert len([one for one in found if one.name.startswith("q")]) >= 60


def test_a_list_counts_whole_queues_like_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    plant()
    monkeypatch.setattr(ways, "TOLD", 1)
    found = {depth.name: depth for depth in depths.by_queue(None)}
    for name, depth in found.items():
        counted = search.counts(f"queue:{name}", by=ME)
        assert [counted[key] for key in COUNTED] == [getattr(depth, key) for key in COUNTED]
    both = search.counts("queue:lanes queue:held.only", by=ME)
    assert both["waiting"] == depths.plus((found["lanes"].waiting, found["held.only"].waiting))
    who = Principal("p", scope=Scope(queues=frozenset({"lanes", "held.only"})))
    assert {key: both[key] for key in COUNTED} == {
        key: search.counts(by=who)[key] for key in COUNTED
    }
    assert search.counts("queue:lanes kind:test.noop", by=ME)["waiting"].capped


def test_queues_are_read_by_the_indexes_of_their_names() -> None:
    plant()
    sql.run("SET LOCAL enable_seqscan = off")
    given = {"known": ["default"], "some": None, "most": 10, "delayed": 10}
    plan = "\n".join(line for (line,) in depths._rows("EXPLAIN " + depths._BY_QUEUE, given))
    assert "Index Cond: ((queue = q.name)" in plan and "Filter: (queue = q.name)" not in plan, plan


# ---- alarms


def codes_of(queue: str) -> set[str]:
    return {p.code for p in overview.overview(by=ME).problems if p.subject == queue}


@pytest.mark.parametrize("scope", ["kind:test.echo", "tenant:acme", "key:agent", "queue:video"])
@pytest.mark.parametrize("state", ["pending", "queued"])
def test_a_job_that_is_held_back_on_purpose_is_not_late(scope: str, state: str) -> None:
    an_executor("video")
    late(a_job(state, Echo(text="x"), queue="video", tenant="acme", exclusive="agent"), 900)
    assert codes_of("video") == {"long_wait"}
    pauses.pause(scope, by=ME, reason="maintenance")
    assert codes_of("video") == set()
    late(a_job(queue="video"), 800)
    assert codes_of("video") == (set() if scope == "queue:video" else {"long_wait"})


def test_a_job_whose_turn_has_not_come_is_not_late() -> None:
    an_executor("video")
    late(held("exclusive_key", "agent", queue="video"), 900)
    assert codes_of("video") == set()


def test_nobody_is_missed_where_all_is_paused() -> None:
    a_job(queue="video")
    assert codes_of("video") == {"no_worker"}
    pauses.pause("queue:video", by=ME, reason="maintenance")
    assert codes_of("video") == set()


# ---- workers that were lost


def test_a_lost_worker_stays_for_an_hour_with_the_jobs_it_held() -> None:
    owner = an_executor()
    job = a_job("queued")
    claim_again(job, owner)
    sql.run("UPDATE jobs_lease SET until = jobs_clock() - interval '1 s'")
    [silent] = lost("silent_worker")
    assert [one.id for one in silent.jobs] == [job]
    leases.mark_lapsed()
    assert job in leases.reap("the-dispatcher")
    [found] = lost("lost_worker")
    assert found.subject == "test-worker" and [one.id for one in found.jobs] == [job]
    assert str(job) in found.text
    for column in ("until", "dead_at"):
        sql.run(f"UPDATE jobs_lease SET {column} = {column} - interval '59 min'")  # noqa: S608
    assert lost("lost_worker")
    sql.run("UPDATE jobs_lease SET dead_at = dead_at - interval '2 min'")
    assert not lost("lost_worker")


def lost(code: str) -> list[overview.Problem]:
    return [p for p in overview.overview(by=ME).problems if p.code == code]
