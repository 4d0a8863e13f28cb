"""The section that all API operations of the app belong to."""

from __future__ import annotations

from jobs.api import Section, auth
from operations.api.problems import problem_of

section = Section(
    "operations",
    {"operation": "/operations", "agent": "/operations/agents", "syncrun": "/operations/runs"},
    login=auth.default(),
    translate=problem_of,
)
