"""Every operation of the API, read from its own OpenAPI, with a request that would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from config.api import api
from jobs.api import SECTIONS

OPEN = {"health_live", "health_ready"}
"""The operations that ask nobody who he is; whoever adds one here says why in docs/api.md."""
SCHEMA: Mapping[str, Any] = api.get_openapi_schema(path_prefix="/")
WHY = {"reason": "a test"}
BODIES: Mapping[str, dict[str, Any]] = {
    "job_enqueue": {"kind": "test.noop"},
    "job_enqueue_many": {"jobs": [{"kind": "test.noop"}]},
    "batch_add": {"jobs": [{"kind": "test.noop"}]},
    "effect_resolve": {"how": "resend"},
    "breaker_reset": {"name": "theirs"},
    "breaker_open": {"name": "theirs"},
    "meter_reopen": {"name": "theirs"},
    "pause_scope": {"scope": "tenant:other"},
    "resume_scope": {"scope": "tenant:other"},
    "schedule_create": {
        "name": "new", "kind": "test.noop", "cron": "0 4 * * *", "tenant": "other",
    },
    "blackout_create": {"scope": "tenant:other", "start": "01:00", "end": "02:00"},
    "blackout_preview": {"scope": "tenant:other", "start": "01:00", "end": "02:00"},
    "blackout_update": {"enabled": False},
    "apikey_create": {"name": "new", "permissions": ["view_job"]},
    "schedule_preview": {"cron": "0 4 * * *"},
    "schedule_edit": {"missed": "all"},
    "schedule_backfill": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"},
    "limit_set": {"scope": "queue:default", "at_once": 1},
    "limit_end_override": {"scope": "queue:default"},
    "limit_reopen": {"scope": "key:test.noop|theirs"},
    "limit_remove": {"scope": "queue:default"},
    "queue_override": {"until": "2099-01-01T00:00:00Z", "at_once": 1},
    "batch_note": {"text": "a note"},
    "cause_note": {"text": "a note"},
    "webhook_create": {"url": "https://a.example.com/", "tenant": "other"},
    "webhook_edit": {"name": "other name"},
    "view_save": {"name": "new", "tenant": "other"},
    "view_edit": {"name": "other name"},
    "deploy_mark": {"version": "1.2.3"},
    "bulk_preview": {"action": "cancel", "query": "state:pending"},
    "bulk_start": {"action": "cancel", "query": "state:pending", "token": "none"},
}  # fmt: skip
"""Bodies of the operations that need more than a reason."""


QUERIES: Mapping[str, str] = {
    "stats_throughput": "?since=2026-01-01T00:00:00Z",
    "queue_metrics": "?since=2026-01-01T00:00:00Z&step_ms=86400000",
    "schedule_gaps": "?start=2026-01-01T00:00:00Z&end=2026-01-02T00:00:00Z",
}
"""What the address of some has to say."""


@dataclass(frozen=True)
class Op:
    """An operation."""

    id: str
    method: str
    path: str
    needs: str
    details: Mapping[str, Any]

    @property
    def section(self) -> str:
        return self.path.split("/")[1]

    def url(self, values: Mapping[str, Any]) -> str:
        """The path, of these things; of others where there are none."""
        names = {
            "dead-letters": "letter",
            "outbox": "event",
            "effects": "effect",
            "blackouts": "blackout",
            "api-keys": "apikey",
            "schedules": "schedule",
            "failures": "cause",
            "workers": "worker",
        }

        def value(found: re.Match[str]) -> str:
            name = found[1]
            own = names.get(self.section, name)
            if own in values:
                return str(values[own])
            return {"name": "default", "number": "1"}.get(name, str(uuid4()))

        filled = re.sub(r"\{(\w+)\}", value, self.path)
        return filled + QUERIES.get(self.id, "")

    def body(self) -> dict[str, Any] | None:
        """A body that it would take."""
        content = self.details.get("requestBody", {}).get("content", {})
        if not content:
            return None
        schema = content["application/json"]["schema"]
        [ref] = [one["$ref"] for one in schema.get("anyOf", [schema]) if "$ref" in one]
        named = SCHEMA["components"]["schemas"][ref.rpartition("/")[2]]
        has_reason = "reason" in named["properties"]
        return {**(WHY if has_reason else {}), **BODIES.get(self.id, {})}

    def headers(self) -> dict[str, str]:
        return {"If_Match": "*"} if self.method == "PATCH" else {}


def every() -> Iterator[Op]:
    """All of them."""
    for path, methods in SCHEMA["paths"].items():
        for method, details in methods.items():
            needs = details.get("x-permission", "")
            yield Op(details["operationId"], method.upper(), path, needs, details)


ALL = sorted(every(), key=lambda op: op.id)
GUARDED = [op for op in ALL if op.id not in OPEN]
OF_JOBS = [op for op in GUARDED if set(op.details["tags"]) <= {*SECTIONS}]
"""Those about what ``tests.api.world`` makes; apps test the scope of their own."""
