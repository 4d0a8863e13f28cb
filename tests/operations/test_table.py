"""The table, the settings, and what follows from them."""

from __future__ import annotations

import ast
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from operations import amounts, checks, config, sync
from operations.config import parse
from operations.models import MIRROR, Phase
from operations.states import ENDED, operation
from operations.table import OPERATIONS, SYNCS, Family
from tests.operations.factories import order

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"


def test_there_are_sixteen_and_the_guide_lists_them() -> None:
    assert [one.rank for one in OPERATIONS.values()] == list(range(1, 17))
    assert OPERATIONS["submit-order"].priority == 100 and OPERATIONS["sync-prices"].priority == 10
    text = DOCS.read_text()
    for one in OPERATIONS.values():
        line = (
            f"| `{one.type}` | {one.family} | {one.priority} | {one.timeout:.0f} s "
            f"| {one.attempts} |"
        )
        assert line in text
    for name in config._KEYS:
        assert f"| `{name}` |" in text
    assert set(MIRROR) == set(sync.SYNCS) == {one.type for one in SYNCS}


@pytest.mark.parametrize("type", OPERATIONS)
def test_every_kind_is_declared_as_its_family_is(type: str) -> None:
    from jobs import registry

    found: Any = registry.get(OPERATIONS[type].kind)
    options = found.options if hasattr(found, "options") else found
    family = OPERATIONS[type].family
    assert options.queue == OPERATIONS[type].queue
    assert (options.preempts, options.preemptible) == (
        family is not Family.SYNC, family is Family.SYNC,
    )  # fmt: skip
    assert options.internal and options.on_timeout == "fail"


def test_nothing_leads_from_the_erp_to_failed_or_cancelled() -> None:
    for phase in (Phase.ERP_SAVE_DONE, Phase.DB_COMMITTED, Phase.COMPLETED):
        assert not set(operation.ways(phase)) & set(ENDED)


def test_the_syncs_know_nothing_of_jobs() -> None:
    for path in Path(sync.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [name for name in names if name.partition(".")[0] in ("jobs", "django")]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"ERPURL": ""}, "did you mean 'ERP_URL'"),
        ({"CALL_TIMEOUT": 0}, "above zero"),
        ({"TIMEOUTS": {"submit-ordr": 3}}, "did you mean 'submit-order'"),
        ({"TIMEOUTS": {"submit-order": -3}}, "above zero"),
        ({"TARGETS": {"sync-orders": (1,)}}, "two whole numbers"),
        ([], "must be a dict"),
    ],
)
def test_a_wrong_setting_is_named(raw: Any, words: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=words):
        parse(raw)


def test_the_checks_say_what_is_wrong(settings: Any) -> None:
    settings.OPERATIONS = {"ERP_URL": "ftp://erp"}
    assert [one.id for one in checks.check_settings()] == ["operations.E002"]
    settings.OPERATIONS = {"NOTHING": 1}
    assert [one.id for one in checks.check_settings()] == ["operations.E001"]
    settings.OPERATIONS = {}
    assert checks.check_settings() == []
    assert [one.id for one in checks.check_erp()] == ["operations.W001"]


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ({}, []),
        ({"rest": {}}, []),
        ({"writes": {"queues": ["erp-write"]}, "rest": {}}, []),
        ({"all": {"queues": ["erp-write:3", "erp-sync"]}}, ["kills the writes"]),
        ({"all": {"queues": ["erp-write", "erp-read", "erp-sync"]}},
         ["kills the writes", "take every slot"]),
    ],
)  # fmt: skip
def test_a_group_that_writes_share_is_named(settings: Any, workers: Any, words: list[str]) -> None:
    settings.JOBS = {**settings.JOBS, "WORKERS": workers}
    found = [str(one.msg) for one in checks.check_groups()]
    assert len(found) == len(words)
    assert all(part in text for part, text in zip(words, found, strict=True))


def test_amounts_are_rounded_once() -> None:
    from operations.payloads import parse as parsed

    data: Any = parsed("submit-order", order())
    assert str(data.total) == "57.69"
    assert str(amounts.rounded(Decimal("0.005"))) == "0.01"
