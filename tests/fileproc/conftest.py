from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fileproc.indexing import postgres
from fileproc.models import File
from fileproc.services import announcing, batches, confirming
from jobs import blobs
from jobs.testing import freeze_clock, run_jobs
from tests.api.conftest import fresh_counts
from tests.integration.conftest import fleet, servers

__all__ = ["fleet", "fresh_counts", "servers"]  # fixtures


@pytest.fixture(autouse=True)
def store(settings: Any, tmp_path: Path) -> Iterator[None]:
    """Blobs of a test are gone with it."""
    settings.JOBS = {**settings.JOBS, "BLOBS": {"STORE": "local", "ROOT": str(tmp_path / "blobs")}}
    yield


@pytest.fixture
def model(db: None) -> None:
    """Skips the test where the server has no pgvector, and search is by words."""
    if not postgres.exists():
        pytest.skip("this PostgreSQL has no pgvector")


def upload(
    *documents: tuple[str, bytes], owner: str = "user:1", md5: str = "", count: int = 0
) -> list[File]:
    """Upload documents in a batch of their own, and confirm them."""
    batch = batches.create(owner, count or len(documents))
    files = []
    for name, data in documents:
        made = batches.register(owner, batch.pk, announcing.Announced(name, len(data)))
        assert made.file is not None
        blobs.store().write(made.file.blob_key, data)
        files.append(made.file)
    ids = [file.pk for file in files]
    heads = confirming.heads(owner, batch.pk, ids)
    arrivals = [confirming.Arrival(pk, md5=md5) for pk in ids]
    confirmed = confirming.confirm(owner, batch.pk, arrivals, heads, by="tests")
    assert not any(one.refused for one in confirmed)
    return files


def process(rounds: int = 12) -> None:
    """Run all jobs to their ends, without waiting between attempts."""
    with freeze_clock() as clock:
        for _ in range(rounds):
            run_jobs()
            clock.tick(20)
