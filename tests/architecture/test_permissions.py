"""Who may do what is said by ``operate`` and by the verbs of the apps, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.principals import every_permission
from tests.architecture import sources
from tests.architecture.sources import ROOT


def test_no_permission_is_named_by_a_face() -> None:
    assert sources.permission_literals(ROOT, every_permission()) == []


@pytest.mark.parametrize("file", ["jobs/admin/jobacts.py", "jobs/cli/bulk.py", "emailgw/api.py"])
def test_a_permission_that_is_named_is_found(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text('NEEDS = "retry_job"\n__all__ = ["retry_job"]\n')
    [found] = sources.permission_literals(tmp_path, every_permission())
    assert found.endswith(":1: retry_job")
