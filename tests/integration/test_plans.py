"""No statement of a fleet is compiled, or reads in a way that has been switched off.

Compiling takes longer than any statement of the engine, and each session does it anew. A plan
that is switched off is made where no index fits; before PostgreSQL 18 it seems so expensive that
it is compiled, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.servers import Server, answer
from tests.integration import plans
from tests.integration.fleet import Fleet
from tests.privacy import vault

pytestmark = pytest.mark.slow
SETTINGS = {**vault.KEYS, "WEBHOOKS": True, "HTTP_ALLOW": ["127.0.0.0/8"]}
FORGET_ALL = {
    f"KEEP_{name}": 0
    for name in ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED", "BATCHES", "DEAD_LETTERS", "BULKS")
}


@pytest.fixture
def receiver() -> Iterator[Server]:
    server = Server()
    server.replies["/hook"] = answer()
    yield server
    server.close()


@pytest.mark.timeout(300)
def test_nothing_is_compiled_or_read_against_orders(
    fleet: Fleet, receiver: Server, tmp_path: Path
) -> None:
    begins = fleet.postgres.log.stat().st_size
    with plans.logging(fleet.postgres.superuser_url):
        fleet.dispatcher(jobs=SETTINGS)
        fleet.manage("relay", "jobs", "relay", jobs=SETTINGS)
        fleet.worker("--queues=default,jobs.webhooks,jobs.bulk", jobs=SETTINGS)
        hook = f"http://127.0.0.1:{receiver.port}/hook"
        mix = fleet.program(
            "mix", "tests/integration/mix.py", str(tmp_path), hook,
            jobs={**SETTINGS, **FORGET_ALL},
        )  # fmt: skip
        assert mix.ended(200) == 0, mix.logged()
        fleet.end_programs()
    with fleet.postgres.log.open("rb") as log:
        log.seek(begins)
        found = list(plans.logged(log.read().decode(errors="replace")))
    for part in ("jobs_closure", "UPDATE jobs_job", "jobs_outbox", "jobs_webhookdelivery"):
        assert any(part in plan for plan in found), part
    assert [plan for plan in found if plans.is_wasteful(plan)] == []
