"""The rights in Redis that the documentation names suffice, and a missing one is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.fleet import CHECKOUT, Fleet
from tests.integration.realtime.site import Site

RULE = re.compile(r"^ACL SETUSER shop (.*)$", re.MULTILINE)


def _allow(fleet: Fleet, *rights: str) -> None:
    run: Any = fleet.redis.execute_command
    run("ACL", "SETUSER", "shop", *rights)


@pytest.fixture
def limited(fleet: Fleet) -> Iterator[dict[str, str]]:
    """Yield an environment in which Redis is used under the documented rights."""
    [rights] = RULE.findall((CHECKOUT / "docs" / "embedding.md").read_text())
    fleet.redis.acl_log_reset()
    fleet.redis.acl_setuser("shop", reset=True)
    _allow(fleet, *rights.split())
    address = fleet.valkey.url.removeprefix("unix://")
    yield {"REDIS_URL": f"unix://shop:secret@{address}"}
    fleet.redis.acl_deluser("shop")


@pytest.mark.slow
def test_jobs_run_under_the_documented_rights(fleet: Fleet, limited: dict[str, str]) -> None:
    fleet.dispatcher(env=limited)
    fleet.worker(env=limited)
    Site(fleet, env=limited)
    waiting = [fleet.enqueue("test.noop") for _ in range(20)]
    fleet.await_final()
    assert {fleet.state(job) for job in waiting} == {"succeeded"}
    doctor = fleet.manage("doctor", "jobs", "doctor", env=limited)
    doctor.ended(60)
    denied = [(one["object"], one["context"]) for one in fleet.redis.acl_log()]
    assert denied == []
    assert re.search(r"redis_commands +ok", doctor.logged()), doctor.logged()


@pytest.mark.slow
def test_a_missing_right_is_named(fleet: Fleet, limited: dict[str, str]) -> None:
    _allow(fleet, "-@scripting")
    doctor = fleet.manage("doctor", "jobs", "doctor", env=limited)
    assert doctor.ended(60) != 0
    assert "no job is handed out: allow its user EVAL" in " ".join(doctor.logged().split())
