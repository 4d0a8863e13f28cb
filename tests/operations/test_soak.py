"""What takes minutes, or must not be measured beside anything else."""

from __future__ import annotations

import pytest

from tests.operations.office import Office
from tests.operations.test_stopping import beset, outlast_the_lease, step_aside

pytestmark = pytest.mark.soak


def test_a_sync_that_is_preempted_twenty_times_ends(office: Office) -> None:
    step_aside(office, 20)


def test_a_long_operation_outlasts_its_lease(office: Office) -> None:
    outlast_the_lease(office, 6.0, 20)


def test_agents_in_trouble_do_not_delay_others(office: Office) -> None:
    """Ten slots; the others need a fifth more at most than without them."""
    office.erp.slow = 0.5
    office.dispatcher()
    quiet_worker = office.worker(concurrency=10)
    quiet = office.seconds_of([f"quiet-{n}" for n in range(12)], each=6)
    quiet_worker.end()
    beset(office, concurrency=10)
    noisy = office.seconds_of([f"noisy-{n}" for n in range(12)], each=6)
    print(f"{quiet:.1f} s alone, {noisy:.1f} s beside them")  # noqa: T201
    assert noisy <= 1.2 * quiet + 1
