"""What every test of the way out starts from."""

from __future__ import annotations

import pytest

from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site, _numbers


@pytest.fixture
def site(fleet: Fleet) -> Site:
    fleet.manage(f"relay{next(_numbers)}", "jobs", "relay")
    return Site(fleet)
