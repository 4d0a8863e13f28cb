"""The publisher: how fast due posts go out, how late, and its calendar among 100,000 posts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from benchmarks import bench, records
from benchmarks.bench import Bench, manage
from benchmarks.emails import await_port
from benchmarks.processes import Processes
from benchmarks.result import Check, Figures, Result, quantile, spread
from benchmarks.stage import free_port

SLOTS = 8
ACCOUNTS = 40
QUEUE = "publisher"
QUERIES = 20
WEEK_OF = datetime(2031, 5, 1, tzinfo=UTC)
POSTS = """
INSERT INTO publisher_publication (id, brand_id, tenant, account_id, channel, type, key,
  key_version, content, scheduled_at, run_at, publish_until, status, reason, attempts, error,
  doubted, remote_id, url, handle, created_at)
SELECT gen_random_uuid(), %(brand)s, %(tenant)s, %(account)s, 'meta_facebook', 'publish',
  'bench-' || n, 1, '{"caption": "Fresh bread from seven"}',
  at, at, at + interval '1 day', 'completed', '', 1, '', false, n::text, '', '{}', at
FROM (SELECT n, %(middle)s::timestamptz + (n - %(size)s / 2) * interval '3 minutes' AS at
  FROM generate_series(1, %(size)s) n) posts
"""


def due(b: Bench) -> Result:
    """Posts that are due on 40 accounts; beside plain jobs with one effect and the same call."""
    size = 80 if b.quick else 1200
    plain = _drain(b, size, "default", _plain_jobs)
    ours = _drain(b, size, QUEUE, _due_posts)
    ratio = round(ours["rate"] / plain["rate"], 2)
    check = Check("x plain jobs with one effect", ratio, 0.5)
    return Result({"jobdesk": ours, "plain_effect": plain}, [check], ratio)


def late(b: Bench) -> Result:
    """From the moment for which a post is scheduled until its first request, at four a second."""
    size = 12 if b.quick else 240
    port = free_port()
    _clear(b)
    processes, out = b.stage(_variables())
    with processes:
        _begin(processes, port, QUEUE)
        accounts = _accounts(ACCOUNTS, f"http://127.0.0.1:{port}/graph")
        _posts(accounts, SLOTS)
        out.wait_for(SLOTS, 60.0)  # the workers have come up
        b.wait_quiet()
        begin = time.time() + 5
        _posts(accounts, size, [begin + number / 4 for number in range(size)])
        with b.watching() as seen:
            out.wait_for(SLOTS + size, 120.0 + size / 4)
        found = [one for one in out.times(records.TAKEN) if one[0]]
    waits = sorted(ran - sent for sent, ran in found)
    if len(found) != size or waits[0] < -0.05:
        words = f"{len(found)} posts of {size} were sent, the first {waits[0]:.3f} s after its time"
        raise RuntimeError(words)
    ours = {**spread(waits), "posts": size, **seen}
    p95 = round(1000 * quantile(waits, 0.95), 1)
    check = Check("p95 from run_at to the request", p95, 1000, None, True, " ms")
    return Result({"jobdesk": ours}, [check])


def calendar(b: Bench) -> Result:
    """The week and the month of a brand with 100,000 publications, 480 of each day in sight."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from benchmarks.admin import visitor

    size, turns = (5000, 2) if b.quick else (100_000, 15)
    _clear(b)
    [account] = _accounts(1, "")
    values = {"brand": account.brand_id, "tenant": account.tenant, "account": account.pk}
    with connection.cursor() as cursor:
        cursor.execute(POSTS, {**values, "middle": WEEK_OF, "size": size})
    b.sql("ANALYZE publisher_publication")
    client, figures, checks = visitor(), dict[str, Figures](), list[Check]()
    for view in ("week", "month"):
        url = f"/admin/publisher/calendar/?brand=bench&view={view}&on={WEEK_OF:%Y-%m-%d}"
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(url, secure=True)
        if answer.status_code != 200 or "more</a>" not in answer.content.decode():
            raise RuntimeError(f"the {view} answered {answer.status_code}, or shows too little")
        asked, times = len(queries), []
        for _ in range(turns):
            began = time.perf_counter()
            client.get(url, secure=True)
            times.append(time.perf_counter() - began)
        figures[view] = {**spread(times), "queries": asked, "posts": size}
        checks.append(Check(f"queries of the {view}", asked, QUERIES, None, True))
    return Result({"jobdesk": figures}, checks)


# ---- the stage


def _variables() -> dict[str, str]:
    return {"HTTP_ALLOW": "127.0.0.0/8"}


def _clear(b: Bench) -> None:
    b.reset()
    b.sql("TRUNCATE publisher_brand, jobs_breaker CASCADE")


def _begin(processes: Processes, port: int, queue: str) -> None:
    """Start the providers, and workers with eight slots."""
    processes.start([sys.executable, "-m", "benchmarks.wire", str(port)])
    await_port(port)
    sizes = ["--processes", "2", "--concurrency", str(SLOTS // 2)]
    processes.start(bench.dispatcher(), manage("jobs", "worker", "--queues", queue, *sizes))


def _drain(b: Bench, size: int, queue: str, enqueue: Callable[[int, int], None]) -> Figures:
    """Return the rate of the requests at the providers while everything that is due goes out."""
    port = free_port()
    _clear(b)
    processes, out = b.stage(_variables())
    enqueue(port, size)
    b.wait_quiet()
    with processes:
        _begin(processes, port, queue)
        out.wait_for(1, 60.0)
        with b.watching() as seen:
            out.wait_for(size, 120.0 + size / 2)
        taken = [moment for _, moment in out.times(records.TAKEN)]
    skipped = size // 10  # the workers were coming up
    rate = (size - 1 - skipped) / (taken[-1] - taken[skipped])
    return {"rate": round(rate, 1), "posts": size, **seen}


def _plain_jobs(port: int, size: int) -> None:
    import jobs
    from benchmarks.specimens.handlers import Send

    url = f"http://127.0.0.1:{port}/graph/page-{{}}/feed"
    jobs.enqueue_many(
        Send(url=url.format(number % ACCOUNTS), text=f"Bread {number}") for number in range(size)
    )


def _due_posts(port: int, size: int) -> None:
    _posts(_accounts(ACCOUNTS, f"http://127.0.0.1:{port}/graph"), size)


def _posts(accounts: list[Any], size: int, moments: list[float] | None = None) -> None:
    """Accept posts for the accounts in turn, each for its moment, or due."""
    from publisher import services
    from publisher.content import Content

    for number in range(size):
        text, at = f"Bread {number}", None
        if moments is not None:
            text, at = f"{text}, due {moments[number]:.6f}", moments[number]
        when = None if at is None else datetime.fromtimestamp(at, UTC)
        services.enqueue(accounts[number % len(accounts)], Content(caption=text), run_at=when)


def _accounts(count: int, base_url: str) -> list[Any]:
    from publisher import services
    from publisher.models import Account

    brand = services.create_brand("bench", "Bench")
    return [
        Account.objects.create(
            brand=brand, tenant=brand.tenant, channel="meta_facebook", name=f"Page {number}",
            remote_account=f"page-{number}", base_url=base_url, token="bench",  # noqa: S106  of the stand-in
        )
        for number in range(count)
    ]  # fmt: skip
