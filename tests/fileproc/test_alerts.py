"""The alerts and the dashboard of the app ask for metrics that there are, with their labels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from fileproc import metrics
from fileproc.payloads import KINDS
from jobs.metrics import page
from jobs.metrics.declare import declared
from jobs.metrics.names import METRICS
from jobs.models import Job
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


def test_the_dashboard_asks_for_what_is_measured() -> None:
    board = json.loads((ROOT / "docs" / "monitoring" / "documents.json").read_text())
    labels = {one.name: set(one.spec.labels) for one in declared()}
    labels |= {name: set(one.labels) for one in METRICS for name in one.series}
    labels |= {f"{one.name}_bucket": set(one.spec.labels) for one in declared()}
    for name in [name for name in labels if name.endswith("_bucket")]:
        labels[name] |= {"le"}
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    for expression in asked:
        for by in re.findall(r"by \(([^)]+)\)", expression):
            [name, *_] = re.findall(r"((?:fileproc|jobs?)_\w+)", expression.partition(by)[2])
            assert set(by.split(", ")) <= labels[name], expression
        for name, inner in re.findall(r"((?:fileproc|jobs?)_\w+)(?:\{([^}]*)\})?", expression):
            assert set(re.findall(r'(\w+)=~?"', inner)) <= labels[name], expression
    own = {one.name for one in declared() if one.name.startswith("fileproc_")}
    assert {name for name in own if name not in " ".join(asked)} == set()


@pytest.mark.django_db
def test_the_queries_find_failures_by_code_and_by_upload(caplog: pytest.LogCaptureFixture) -> None:
    [bad] = upload(("bad.pdf", b"%PDF-1.7 broken"))
    process(6)
    [line] = [r for r in caplog.records if r.name == "jobs.attempts" and r.levelname == "ERROR"]
    text = (ROOT / "docs" / "monitoring" / "log-queries.yml").read_text()
    [pattern] = re.findall(r'regexp "(.+?)"', text)
    found = re.search(pattern, line.getMessage())
    assert found is not None and found["code"] == "DAMAGED"
    assert {row.correlation_id for row in Job.objects.filter(kind__in=KINDS)} == {str(bad.batch_id)}


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
