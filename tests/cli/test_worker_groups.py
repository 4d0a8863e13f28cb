"""A worker without a group, in a project that has groups."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.cli import worker

GROUPS = {"calm": {"queues": ["calm"]}, "rest": {}}


@pytest.mark.parametrize(
    ("groups", "given", "warns"),
    [
        (GROUPS, {}, True),
        (GROUPS, {"group": "calm"}, False),
        (GROUPS, {"queues": [("calm", 1)]}, False),
        ({}, {}, False),
    ],
)
def test_a_worker_of_all_queues_warns_of_what_it_mixes(
    settings: Any, caplog: pytest.LogCaptureFixture, groups: Any, given: Any, warns: bool
) -> None:
    settings.JOBS = {**settings.JOBS, "WORKERS": groups}
    queues = dict(worker._queues({"queues": None, "group": None, **given}))
    assert (set(queues) == {"calm"}) == bool(given)
    assert ("declares calm, rest" in caplog.text) == warns
