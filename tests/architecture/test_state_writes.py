"""A job's state has one home: the engine moves it, and a person's cancel or retry does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture import sources
from tests.architecture.sources import ROOT


def test_only_the_engine_a_cancel_and_a_retry_write_a_jobs_state() -> None:
    assert sources.state_writes(ROOT) == []
    assert sorted(sources.MOVERS) == ["jobs.operate.cancel", "jobs.operate.retry"]


def test_the_engines_own_writes_would_be_found(tmp_path: Path) -> None:
    for path in (ROOT / "jobs" / "engine").glob("*.py"):
        target = tmp_path / "jobs" / "elsewhere" / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())
    files = {Path(hit.split(".py")[0]).name for hit in sources.state_writes(tmp_path)}
    assert {"claims", "reconcile"} <= files


@pytest.mark.parametrize(
    "text",
    [
        "job.state = 'pending'; job.save()",
        "Job.objects.filter(pk=1).update(state='pending', finished_at=None)",
        "Job.objects.update_or_create(pk=1, state='queued')",
        "SQL = '''UPDATE jobs_job j SET finished_at = NULL,\n  state = 'pending' WHERE id = 1'''",
        "SQL = 'update jobs_job set state=%s'",
    ],
)
def test_a_write_elsewhere_is_found(tmp_path: Path, text: str) -> None:
    path = tmp_path / "publisher" / "services.py"
    path.parent.mkdir()
    path.write_text(text)
    assert len(sources.state_writes(tmp_path)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "state = job.state",
        "if job.state == 'pending': pass",
        "Job.objects.filter(state='pending').count()",
        "SQL = \"UPDATE jobs_job SET progress = %s WHERE state = 'running'\"",
        "DeadLetter.objects.filter(pk=1).update(state='discarded')",
    ],
)
def test_reading_a_state_is_no_write(tmp_path: Path, text: str) -> None:
    path = tmp_path / "publisher" / "services.py"
    path.parent.mkdir()
    path.write_text(text)
    assert sources.state_writes(tmp_path) == []
