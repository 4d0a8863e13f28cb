"""What operators ask is never compiled, however expensive it seems on a large table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction

from jobs.engine import sql
from jobs.operate import reads

pytestmark = pytest.mark.django_db(transaction=True)


def jit() -> str:
    [(value,)] = sql.rows("SHOW jit")
    return str(value)


@pytest.fixture(autouse=True)
def compiling() -> Iterator[None]:
    sql.run("SET jit = on")
    yield
    sql.run("RESET jit")


def test_nothing_is_compiled_within_bounded_reads() -> None:
    with reads.bounded():
        assert jit() == "off"
    assert jit() == "on"


def test_a_surrounding_transaction_has_its_setting_back() -> None:
    with transaction.atomic():
        with reads.bounded():
            assert jit() == "off"
        assert jit() == "on"


def test_nothing_is_compiled_that_doctor_and_metrics_ask() -> None:
    with sql.reading("1s"):
        assert jit() == "off"
        assert sql.rows("SHOW statement_timeout") == [("1s",)]
    assert jit() == "on"
