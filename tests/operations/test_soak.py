"""What takes minutes: a sync that is preempted as often as it may be."""

from __future__ import annotations

import pytest

from tests.integration.conftest import fleet, servers
from tests.operations.office import Office
from tests.operations.test_stopping import office, step_aside

__all__ = ["fleet", "office", "servers"]  # fixtures


@pytest.mark.soak
def test_a_sync_that_is_preempted_twenty_times_ends(office: Office) -> None:
    step_aside(office, 20)
