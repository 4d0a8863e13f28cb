"""Groups of workers of the project, which ``manage.py jobs run`` starts."""

from __future__ import annotations

from typing import Any

OF_OPERATIONS: dict[str, Any] = {
    "erp-writes": {"queues": ["erp-write"], "processes": 1},
    "erp-syncs": {"queues": ["erp-sync"], "processes": 1, "concurrency": 4},
    "rest": {},
}
"""A sync that does not stop has its process killed, and reads may take every slot: writes share
their process with neither. One process each is enough to try it out."""
