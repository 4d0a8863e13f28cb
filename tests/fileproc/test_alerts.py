"""The alerts of the app ask for metrics that there are, with labels that they have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from fileproc import metrics
from jobs.metrics import page
from tests.fileproc import documents
from tests.fileproc.conftest import process, upload

ROOT = Path(__file__).resolve().parents[2]


def rules() -> dict[str, str]:
    text = (ROOT / "docs" / "monitoring" / "alerts.yml").read_text()
    groups = {group["name"]: group for group in yaml.safe_load(text)["groups"]}
    return {rule["alert"]: rule["expr"] for rule in groups["fileproc"]["rules"]}


def test_the_bounds_are_those_that_were_asked_for_and_documented() -> None:
    bounds = {name: " ".join(expr.split()[-2:]) for name, expr in rules().items()}
    assert bounds == {
        "DocumentsDeadLetters": "> 10", "DocumentsStall": "> 0.05", "DocumentsFail": "> 0.01",
        "DocumentsRetriesDoNotHelp": "< 0.9",
    }  # fmt: skip
    text = (ROOT / "docs" / "fileproc.md").read_text()
    assert [name for name in bounds if f"`{name}`" not in text] == []


@pytest.mark.django_db
def test_what_they_ask_for_is_measured() -> None:
    shown = page.text().decode()
    for expression in rules().values():
        for name in re.findall(r"(\w+_total)\{", expression):
            assert f"# TYPE {name} counter" in shown or f"# HELP {name} " in shown, name


@pytest.mark.django_db(transaction=True)
def test_attempts_are_counted_by_stage_number_and_result(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        metrics.attempts, "inc", lambda **labels: counted.append(tuple(labels.values()))
    )
    upload(("good.txt", documents.WORDS.encode()), ("bad.pdf", b"%PDF-1.7 broken"))
    process()
    assert sorted(counted) == [
        ("chunk", "1", "done"), ("embed", "1", "done"), ("extract", "1", "done"),
        ("extract", "1", "failed"), ("extract", "2", "failed"), ("extract", "later", "failed"),
    ]  # fmt: skip
