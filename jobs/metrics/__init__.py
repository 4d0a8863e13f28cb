"""Metrics for Prometheus: ``path("metrics", jobs.metrics.view)`` serves them.

Needs the extra ``metrics`` (prometheus-client) when it is asked, and nothing of it before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobs.metrics.page import view as view

__all__ = ["view"]


def __getattr__(name: str) -> Any:
    if name == "view":
        from jobs.metrics.page import view

        return view
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
