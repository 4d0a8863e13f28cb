"""Workers are killed and frozen, servers cut and emptied: no file is lost, none ends twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.fileproc import documents
from tests.fileproc.site import FAST, WHOLE, Site
from tests.integration.fleet import Fleet, Program
from tests.wait import wait_until

IN_TIME = "-c idle_in_transaction_session_timeout=3s"
"""What frees the rows that a frozen worker has locked."""
POINTS = {
    "a file is taken over": "fileproc_batch",
    "it is decided who reads equal bytes": "fileproc_content",
    "the text is there": "fileproc_chunk",
    "the vectors are looked up": "fileproc_cachedvector",
    "the vectors and the end are written": "fileproc_minilm_384",
}
"""Moments of the pipeline, each by a table that it needs first at that moment."""


@pytest.fixture
def site(fleet: Fleet, tmp_path: Path) -> Site:
    return Site(fleet, tmp_path, settings=FAST)


@contextmanager
def held(site: Site, table: str) -> Iterator[None]:
    """Keep everybody from a table, so that a stage stands still at a known point."""
    url = site.fleet.postgres.direct_url
    with psycopg.connect(url, application_name="observer") as lock:
        lock.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield
        lock.rollback()


def await_blocked(site: Site) -> None:
    """Wait until a stage waits for the table, and not only for rows that a frozen one has."""
    wait_until(
        lambda: site.fleet.value(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND wait_event = 'relation' AND application_name <> 'observer'"
        ),
        60,
        message="a stage is at the point",
    )


def check(site: Site, batch: str, count: int) -> None:
    """All files are ready and have walked once through every state; the end was reported once."""
    fleet = site.fleet
    assert site.summary(batch) == {"total": count, "ready": count, "failed": 0}
    wait_until(lambda: site.completions(batch) == [1], message="the end of the batch is reported")
    assert list(site.moves().values()) == [WHOLE] * count
    [counted] = fleet.query("SELECT queued, extracting, chunking, embedding, ready FROM "
                            "fileproc_batch WHERE id = %s", [batch])  # fmt: skip
    assert counted == (0, 0, 0, 0, count)
    twice = "SELECT count(*) FROM fileproc_chunk c JOIN fileproc_chunk d USING (content_id, number)"
    assert fleet.value(f"{twice} WHERE c.id < d.id") == 0
    if site.has_vectors():
        assert fleet.value("SELECT count(*) FROM fileproc_minilm_384") == fleet.value(
            "SELECT count(*) FROM fileproc_chunk"
        )


def upload(site: Site, count: int) -> str:
    batch = site.batch(count)
    for n in range(count):
        site.upload(batch, f"{n}.pdf", documents.pdf(f"Lamp {n} burns.", f"Oil {n}."))
    return batch


MIXED = dict(zip(POINTS, ("freeze", "kill", "freeze", "kill", "freeze"), strict=True))


@pytest.mark.parametrize(
    "attacks",
    [
        pytest.param(MIXED, marks=pytest.mark.slow, id="mixed"),
        pytest.param(dict.fromkeys(POINTS, "kill"), marks=pytest.mark.soak, id="kill"),
        pytest.param(dict.fromkeys(POINTS, "freeze"), marks=pytest.mark.soak, id="freeze"),
    ],
)
def test_workers_that_die_or_freeze_at_each_point_lose_and_change_nothing(
    fleet: Fleet, tmp_path: Path, attacks: dict[str, str]
) -> None:
    with fleet.connecting(IN_TIME):
        site = Site(fleet, tmp_path, settings=FAST)
        batch = upload(site, 4)
        frozen = [
            worker
            for point, attack in attacks.items()
            if (worker := struck(site, POINTS[point], attack)) is not None
        ]
        site.worker()
        site.await_end(batch, 4, 120)
        before = fleet.value("SELECT max(id) FROM fileproc_chunk")
        for worker in frozen:
            worker.proceed()
        for worker in frozen:
            worker.send(signal.SIGTERM)
            worker.ended(60)
    assert fleet.value("SELECT max(id) FROM fileproc_chunk") == before
    check(site, batch, 4)


def struck(site: Site, table: str, attack: str) -> Program | None:
    """Kill or freeze a new worker when it needs the table; return it if it is to thaw."""
    if table == "fileproc_minilm_384" and not site.has_vectors():
        return None
    with held(site, table):
        worker = site.worker()
        await_blocked(site)
        if attack == "freeze":
            worker.pause()
            return worker
        family = worker.family()
        worker.kill()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    return None


def reached(site: Site, statement: str, least: int) -> bool:
    return bool(site.fleet.value(statement) >= least)


@pytest.mark.slow
def test_redis_is_emptied_and_the_database_cut_while_files_are_under_way(site: Site) -> None:
    batch = upload(site, 20)
    site.worker()
    ended = "SELECT count(*) FROM fileproc_file WHERE ended_at IS NOT NULL"
    for least in (1, 6, 12):
        wait_until(partial(reached, site, ended, least), 60)
        site.fleet.redis.flushall()
        site.fleet.terminate_backends()
    site.await_end(batch, 20, 120)
    check(site, batch, 20)


@pytest.mark.slow
def test_a_cancel_kills_a_running_parser_at_once(site: Site) -> None:
    worker, batch = site.worker(), site.batch(1)
    text = "word " * 600
    file = site.upload(batch, "long.pdf", documents.pdf(*[text] * 1900))

    def parser() -> psutil.Process | None:
        for process in worker.family():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if any(part.endswith("jail.py") for part in process.cmdline()):
                    return process
        return None

    found = wait_until(parser, 60, 0.002, "a parser runs")
    assert found is not None
    found.suspend()  # it would run until its limit of two minutes
    assert site.call("DELETE", f"/batches/{batch}")["status"] == "cancelled"
    wait_until(lambda: not found.is_running(), 30, message="the parser is killed")
    error = site.call("GET", f"/files/{file}")["error"]
    assert (error["code"], error["stage"]) == ("CANCELLED", "extracting")
    wait_until(
        lambda: site.fleet.value(
            "SELECT count(*) FROM jobs_job WHERE kind = 'fileproc.extract' AND state = 'cancelled'"
        ),
        message="its job is cancelled",
    )
