"""What programs ask of the API and do by it, on a table of a million jobs, through the server."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from benchmarks import admin, operate
from benchmarks.bench import Bench, end, manage
from benchmarks.result import Check, Figures, Result
from benchmarks.stage import free_port

MUST_MS, AIM_MS = 100, 50
KEYS = """
INSERT INTO jobs_key (kind, tenant, key, job_id)
SELECT 'bench.noop', '', 'key-' || n, gen_random_uuid() FROM generate_series(1, %s) n
"""
UNCOUNTED = {"BENCH_UNCOUNTED": "1", "HTTPS": "off"}
"""Nobody asks too often."""
WHY = {"reason": "to be measured"}


def api(b: Bench) -> Result:
    """Each question and each act many times, over one connection, warm, as a client sees it."""
    from jobs.operate import apikeys
    from jobs.principals import ALL

    size, turns = (5000, 3) if b.quick else (1_000_000, 40)
    b.reset()
    operate.fill(b, size)
    ids = admin.beside(b, size)
    b.sql(admin.AUDIT, (size - size // 10,))
    b.sql(KEYS, (size,))
    for table in ("jobs_audit", "jobs_key"):
        b.sql(f"VACUUM ANALYZE {table}")
    key = apikeys.create("bench", sorted(ALL), by="ada", reason="to be measured", is_staff=True)
    figures: Figures = {}
    with served(b, key.text) as client:
        for name, ask in asks(b, client, ids, size).items():
            figures[name] = operate.timed(ask, turns)
    checks = [
        Check(f"{name} p95", found["p95_ms"], MUST_MS, AIM_MS, True, unit=" ms")
        for name, found in figures.items()
    ]
    return Result({"jobdesk": figures}, checks)


@contextmanager
def served(b: Bench, secret: str) -> Iterator[httpx.Client]:
    """A client of the project's own ASGI server, which has one connection to it."""
    port = free_port()
    with (b.folder / "processes.log").open("ab") as log:
        server = subprocess.Popen(
            manage("jobs", "web", str(port)),
            env={**b.environment, **UNCOUNTED}, cwd=Path.cwd(), stdout=log, stderr=log,
        )  # fmt: skip
    try:
        headers = {"Authorization": f"Bearer {secret}"}
        url = f"http://127.0.0.1:{port}/api/v1"
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                with suppress(httpx.TransportError):
                    client.get("/health/live")
                    break
                time.sleep(0.1)
            yield client
    finally:
        end(server)


def asks(b: Bench, client: httpx.Client, ids: dict[str, Any], size: int) -> dict[str, Any]:
    """What is asked and done, by names that people know."""
    order = size // 2 // 4 * 4
    week = (datetime.now(UTC) - timedelta(days=7)).isoformat()

    def get(path: str) -> Callable[[], Any]:
        return partial(_expect, 200, client.get, path)

    def found(query: str) -> Callable[[], Any]:
        return get(f"/jobs?query={quote(query)}")

    # One whose effect is in doubt would be refused: that is what ``ids["effect"]`` is about.
    dead = (pk for pk in _jobs(b, "failed") if pk != ids["job"])
    waiting = _jobs(b, "pending")
    first: Any = _expect(200, client.get, "/jobs?limit=200").json()
    return {
        "list": get("/jobs"),
        "list_page": get(f"/jobs?cursor={quote(first['page']['next'])}&limit=200"),
        "list_count": get("/jobs?query=state:failed&include=count"),
        "search_value": found(f"payload.order_id:{order}"),
        "search_common": found("payload.region:region-1 state:failed"),
        "search_bounded": found("payload.note:nothing"),
        **{f"state_{s}": found(f"state:{s}") for s in ("pending", "running", "blocked", "failed")},
        "late": found("is:late"),
        "detail": get(f"/jobs/{ids['job']}?include=payload&include=attempts&include=history"),
        "explain": get(f"/jobs/{ids['scheduled']}/explain"),
        "overview": get("/stats/overview"),
        "throughput_7d": get(f"/stats/throughput?since={quote(week)}&step_ms=3600000"),
        "kinds": get("/stats/kinds"),
        "dead_letters": get("/dead-letters"),
        "dead_letter_stats": get("/dead-letters/stats"),
        "failures": get("/failures"),
        "batch": get(f"/batches/{ids['batch']}"),
        "batch_failures": get(f"/batches/{ids['batch']}/failures"),
        "queues": get("/queues"),
        "audit": get("/audit"),
        "audit_of_target": get(f"/audit?target_kind=job&target_id={ids['job']}"),
        "outbox": get("/outbox"),
        "preview": partial(
            _expect, 200, client.post, "/bulk-operations/preview",
            json={"action": "retry", "query": "state:failed"},
        ),
        "enqueue": partial(_expect, 201, client.post, "/jobs", json={"kind": "bench.noop"}),
        "replay": lambda: _expect(201, client.post, f"/jobs/{next(dead)}/replay", json=WHY),
        "retry": lambda: _expect(200, client.post, f"/jobs/{next(dead)}/retry", json=WHY),
        "cancel": lambda: _expect(200, client.post, f"/jobs/{next(waiting)}/cancel", json=WHY),
    }  # fmt: skip


def _jobs(b: Bench, state: str) -> Iterator[Any]:
    """Jobs of a kind that there is, one after the other."""
    from jobs.models import Job

    rows = Job.objects.filter(state=state).order_by("-created_at").values_list("pk", flat=True)
    chosen = list(rows[:150])
    b.sql("SET session_replication_role = replica")
    b.sql("UPDATE jobs_job SET kind = 'bench.noop', payload = '{}' WHERE id = ANY(%s)", (chosen,))
    b.sql("RESET session_replication_role")
    return iter(chosen)


def _expect(status: int, ask: Callable[..., httpx.Response], *args: Any, **how: Any) -> Any:
    answer = ask(*args, **how)
    if answer.status_code != status:
        raise RuntimeError(f"{args[0]} answered {answer.status_code}: {answer.text[:300]}")
    return answer
