"""The alerts of the app ask for metrics that there are, with labels that they have."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from jobs.metrics import page
from trading import metrics

FILE = Path(__file__).resolve().parents[2] / "docs" / "monitoring" / "alerts.yml"


def rules() -> dict[str, tuple[str, str]]:
    groups = {group["name"]: group for group in yaml.safe_load(FILE.read_text())["groups"]}
    return {rule["alert"]: (rule["expr"], rule["for"]) for rule in groups["trading"]["rules"]}


def test_the_bounds_are_those_that_were_asked_for() -> None:
    bounds = {name: (expr.split()[-1], wait) for name, (expr, wait) in rules().items()}
    assert bounds == {
        "TradingImportsPileUp": ("200", "15m"), "TradingAiFails": ("0.05", "10m"),
        "TradingLabelsLate": ("3", "10m"),
    }  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("alert", "series", "label"),
    [
        ("TradingImportsPileUp", "jobs_queue_depth", "queue"),
        ("TradingAiFails", "ai_requests_total", "outcome"),
        ("TradingLabelsLate", "trading_reflect_seconds", "le"),
    ],
)
def test_what_they_ask_for_is_measured(alert: str, series: str, label: str) -> None:
    expression, _ = rules()[alert]
    assert series in expression and label in expression
    metrics.ai_calls.inc(outcome="error")  # refuses other labels
    assert f"# TYPE {series} " in page.text().decode()
