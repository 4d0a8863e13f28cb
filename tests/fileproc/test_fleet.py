"""The curl sessions of the contract against real servers, and workers that are killed."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fileproc import documents
from tests.fileproc.site import FAST, WHOLE, Site
from tests.integration.fleet import Fleet
from tests.wait import wait_until

slow = pytest.mark.slow


@pytest.fixture
def site(fleet: Fleet, tmp_path: Path) -> Site:
    return Site(fleet, tmp_path)


@slow
def test_25_files_all_end_in_order_and_are_found_or_listed_with_their_reason(site: Site) -> None:
    site.worker()
    batch = site.batch(25)
    good, bad = [], set()
    for n in range(25):
        if n % 5:
            text = documents.pdf(f"Page {n} about lamps.")
            good.append(site.upload(batch, f"test{n}.pdf", text))
        else:
            bad.add(site.upload(batch, f"test{n}.pdf", b"%PDF-1.4 broken"))
    # Equal broken files take turns: five times their attempts and pauses would be 75 s.
    assert site.await_end(batch, 25, 60) == {"total": 25, "ready": 20, "failed": 5}
    wait_until(lambda: site.completions(batch) == [1], message="the end of the batch is reported")
    failed = ["uploaded", "queued", "extracting", "failed"]
    assert site.moves() == dict.fromkeys(good, WHOLE) | dict.fromkeys(bad, failed)
    found = site.call("POST", "/search", {"q": "a page about lamps", "limit": 50})
    assert found["mode"] == ("hybrid" if site.has_vectors() else "text")
    assert {hit["fileId"] for hit in found["hits"]} == set(good)
    entries = site.call("GET", "/dlq")["entries"]
    assert {entry["fileId"] for entry in entries} == bad
    assert {(entry["stage"], entry["attempts"]) for entry in entries} == {("extracting", 3)}
    assert site.call("POST", f"/dlq/{(file := bad.pop())}/retry") == {"success": True}
    assert site.status(file) in ("queued", "extracting")


@slow
def test_a_killed_worker_delays_its_files_and_loses_none(site: Site) -> None:
    fleet, workers = site.fleet, [site.worker(), site.worker()]
    batch = site.batch(20)
    for n in range(20):
        text = " ".join(f"Word {n}-{k}." for k in range(300))
        site.upload(batch, f"test{n}.pdf", documents.pdf(*[text] * 20))
    killed = 0

    def is_over() -> bool:
        nonlocal killed
        running = fleet.value(
            "SELECT count(*) FROM jobs_job WHERE state = 'running' AND kind IN "
            "('fileproc.extract', 'fileproc.chunk', 'fileproc.embed')"
        )
        ended = fleet.value("SELECT count(*) FROM fileproc_file WHERE ended_at IS NOT NULL")
        if killed < 4 and running and ended >= 4 * killed:
            for pid in fleet.executors(workers[killed % 2]):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed += 1
        return bool(sum(site.summary(batch).values()) == 40)

    wait_until(is_over, 150, 0.02, "all 20 files end")
    assert killed == 4
    assert site.summary(batch) == {"total": 20, "ready": 20, "failed": 0}
    wait_until(lambda: site.completions(batch) == [1], message="the end of the batch is reported")
    stray = site.has_vectors() and fleet.value(
        "SELECT count(*) FROM fileproc_chunk c WHERE NOT EXISTS "
        "(SELECT FROM fileproc_minilm_384 v WHERE v.chunk_id = c.id)"
    )
    assert stray == 0


@slow
def test_files_are_found_at_every_moment_of_a_reprocessing_whose_workers_are_killed(
    site: Site,
) -> None:
    fleet, workers = site.fleet, [site.worker(), site.worker()]
    batch = site.batch(6)
    files = {site.upload(batch, f"{n}.pdf", documents.pdf(f"Lamp {n}")) for n in range(6)}
    assert site.await_end(batch, 6) == {"total": 6, "ready": 6, "failed": 0}
    for file in files:
        assert site.call("POST", f"/files/{file}/reprocess")["reprocess"]["error"] is None
    rounds = 0

    def is_over() -> bool:
        nonlocal rounds
        found = site.call("POST", "/search", {"q": "lamp", "mode": "text", "limit": 50})["hits"]
        assert {hit["fileId"] for hit in found} == files
        done = fleet.value("SELECT count(*) FROM fileproc_file WHERE generation = 2")
        if rounds < 3 and done >= 2 * rounds:
            for pid in fleet.executors(workers[rounds % 2]):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            rounds += 1
        return bool(done == 6)

    wait_until(is_over, 120, 0.05, "all files have a second generation")
    assert rounds == 3
    wait_until(
        lambda: fleet.value("SELECT count(*) FROM fileproc_file WHERE is_draft") == 0,
        60, message="the old generations are removed",
    )  # fmt: skip
    assert fleet.value("SELECT count(*) FROM fileproc_content") == 6
    assert fleet.value("SELECT count(*) FROM fileproc_chunk") == 6
    assert site.completions(batch) == [1]


@slow
def test_a_paused_queue_holds_files_back_and_loses_none(site: Site) -> None:
    site.worker()
    scope = "queue:file-chunk"
    site.run("jobs", "pauses", "pause", scope, "--reason=a test")
    batch = site.batch(3)
    files = [site.upload(batch, f"{n}.pdf", documents.pdf(f"Lamp {n}")) for n in range(3)]
    wait_until(lambda: {site.status(file) for file in files} == {"chunking"}, 60, 0.2)
    site.run("jobs", "pauses", "resume", scope, "--reason=a test")
    assert site.await_end(batch, 3) == {"total": 3, "ready": 3, "failed": 0}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [200, 1000, 10_000])
def test_a_folder_is_uploaded_by_command_and_sent_once(
    fleet: Fleet, tmp_path: Path, count: int
) -> None:
    site = Site(fleet, tmp_path, settings=FAST)
    site.worker()
    folder = tmp_path / "papers"
    for n in range(count):
        place = folder / f"part{n % 7}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{n}.txt").write_text(f"Lamp {n} burns.")
    for sent, there in ((count, 0), (0, count)):
        command = ("fileproc", "upload", str(folder), "--owner=acme", "--wait", "--json")
        program = fleet.manage("upload", *command, **site.options)
        assert program.ended(60 + count / 4) == 0, program.logged()
        counted = {"sent": sent, "there": there, "retried": 0, "failed": 0, "refused": 0}
        assert json.dumps(counted) in program.logged()
    rows = fleet.query("SELECT status, count(*) FROM fileproc_file GROUP BY 1")
    assert rows == [("ready", count)]
    assert list(site.moves().values()) == [WHOLE] * count
    batches = fleet.query("SELECT id FROM fileproc_batch WHERE status = 'completed'")
    assert len(batches) == -(-count // 500)
    wait_until(
        lambda: all(site.completions(str(pk)) == [1] for (pk,) in batches),
        message="the end of every batch is reported once",
    )
