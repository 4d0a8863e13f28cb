"""The scenes of the demo that need no processes, against the ERP that they bring along."""

from __future__ import annotations

from typing import Any

import pytest

from config.demo.operations import AnOrderByPages, OperationAct
from jobs import demo
from jobs.testing import freeze_clock, run_jobs
from operations.clients import chromium

pytestmark = pytest.mark.django_db
TITLES = {
    "an order in the ERP", "an order whose answer is lost", "a truncated export",
    "an order behind a hanging login",
}  # fmt: skip
WITH_PROCESSES = {
    "an order during a sync", "a sync that is cancelled", "an order by the pages of the ERP",
}  # fmt: skip


def test_every_scene_ends_as_it_should(settings: Any, tmp_path: Any) -> None:
    of_app = [kind("m", "") for kind in demo.of_apps() if issubclass(kind, OperationAct)]
    by_pages = set() if not chromium.problem() else {AnOrderByPages.title}
    assert {act.title for act in of_app} == (TITLES | WITH_PROCESSES) - by_pages
    acts = [act for act in of_app if act.title in TITLES]
    try:
        found = acts[0].prepare()
        assert not acts[1].prepare()
        assert OperationAct._erp is not None
        OperationAct._erp.slow = 0.1
        settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": [found["HTTP_ALLOW"]]}
        settings.OPERATIONS = {"ERP_URL": found["ERP_URL"], "EXPORTS": str(tmp_path)}
        with freeze_clock() as clock:
            for act in acts:
                act.begin()
            assert not any(act.is_over() for act in acts)
            for _ in range(3):
                run_jobs(OperationAct.queues)
                clock.tick(11)
        assert [act.verdict() for act in acts if not act.is_over() or not act.verdict()[0]] == []
    finally:
        for act in acts:
            act.leave()
    assert OperationAct._erp is None
