"""Headers that say who is asking are believed only from proxies that the settings name."""

from __future__ import annotations

import json

import pytest

from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site

OFFICE = "203.0.113.7"


def key(fleet: Fleet, name: str, *options: str) -> str:
    """Return the secret of a key that may see jobs."""
    made = fleet.manage(
        f"key-{name}", "jobs", "api-keys", "create", name, "view_job", "--reason=test", "--json",
        *options,
    )  # fmt: skip
    assert made.ended(30) == 0, made.logged()
    return str(json.loads(made.logged())["text"])


@pytest.mark.slow
def test_a_server_believes_no_header_of_its_client(fleet: Fleet) -> None:
    free, bound = key(fleet, "free"), key(fleet, "bound", f"--addresses={OFFICE}/32")
    site = Site(fleet)

    def status(secret: str, address: str = OFFICE) -> int:
        forged = {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}
        return site.get("/api/v1/jobs", "", Authorization=f"Bearer {secret}", **forged)[0]

    assert (status(free), status(bound)) == (200, 401)
    tried = [status("wrong", f"203.0.113.{n}") for n in range(40)]
    assert tried[-1] == 429, "failed logins are counted by the address that sends them"
