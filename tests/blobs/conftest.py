"""A store on a disk, and one on a server that speaks like S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.blobs import LocalStore, S3Store
from tests.blobs import seaweed


@pytest.fixture
def local(tmp_path: Path, settings: Any) -> LocalStore:
    root = tmp_path / "blobs"
    settings.JOBS = {**settings.JOBS, "BLOBS": {"STORE": "local", "ROOT": str(root)}}
    return LocalStore(root)


@pytest.fixture(scope="session")
def bucket() -> Iterator[seaweed.Server]:
    with seaweed.running() as server:
        yield server


@pytest.fixture
def s3(bucket: seaweed.Server, settings: Any) -> S3Store:
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
    return bucket.store()
