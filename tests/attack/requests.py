"""Every operation of every NinjaAPI of the project, with a request that aims at others' rows.

An operation joins by existing: its parameters and its body are filled by their names from what is
planted, and by their schemas; only where that is not enough, ``BODIES`` says more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ninja import NinjaAPI

import config.api
from tests.api import operations
from tests.emailgw import factories as emails
from tests.operations import factories as erp

APIS = [found for found in vars(config.api).values() if isinstance(found, NinjaAPI)]
MORE: Mapping[str, dict[str, Any]] = {
    "email_send": {"email": emails.request()},
    "email_batch_send": {"emails": [emails.request()]},
    "email_search": {"cpfCnpj": emails.CPF},
    "email_suppression_add": {"email": "bob@customers.test"},
    "email_company_create": {"sender": "bob@customers.test"},
    "publication_move": {"at": "2035-01-01T10:00:00Z"},
    "account_schedule": {"at": "2035-01-01T10:00:00Z", "caption": "a test"},
    "brand_create": {"slug": "mine"},
    "publisher_job_create": {"channel": "meta_facebook", "payload": {"caption": "a test"}},
    "plan_create": {"brand": "other", "content": {}, "slots": []},
    "template_create": {"brand": "other", "content": {}},
    "brand_set_times": {"times_of_day": "09:00"},
    "brand_add_window": {"start": "22:00", "end": "06:00"},
    "asset_upload": {"brand": "other", "content_type": "image/png"},
    "publisher_preflight": {"brand": "other", "content": {}, "channels": ["meta_facebook"]},
    "plan_status": {"status": "draft"},
    "plan_add_slot": {"at": "2035-01-01T10:00"},
    "slot_move": {"at": "2035-01-01T10:00"},
    "brand_set_member": {"user": "planner"},
    "publisher_job_test": {"channel": "meta_facebook"},
    "publisher_settings_set": {"queue.blackout_windows": []},
    "event_ticket": {"tenants": ["other"]},
    "job_edit": {"priority": 9},
    "operation_enqueue": {"type": "submit-order", "data": erp.order("P-2"), "agent": "ada"},
    "agent_create": {"key": "eve", "erp_login": "eve", "password": "secret"},
    "agent_sync_now": {"type": "sync-orders"},
    "agent_choose_client": {"client": "http"},
    "agent_link_user": {"username": ""},
    "operation_stop_type": {"type": "submit-order"},
    "operation_resolve": {"how": "recheck"},
    "trading_rule_upsert": {"kind": "minHoldHours", "params": {"hours": 1}},
}
QUERIES = {
    **operations.QUERIES,
    "email_batch_get": "?company={company}",
    "stats_throughput": "?since=2026-01-01T00:00:00Z&step_ms=86400000",
}
BODIES = {**operations.BODIES, **MORE}
SECTIONS = {
    "dead-letters": "letter", "outbox": "event", "effects": "effect", "blackouts": "blackout",
    "api-keys": "apikey", "schedules": "schedule", "failures": "cause", "workers": "worker",
    "queues": "queue", "kinds": "kind", "stats": "kind",
}  # fmt: skip
"""What a path parameter of these sections means, where it is called number, name or fingerprint."""


@dataclass(frozen=True)
class Operation:
    """An operation of one of the APIs."""

    id: str
    method: str
    path: str
    details: Mapping[str, Any]
    schemas: Mapping[str, Any]

    def request(self, world: Mapping[str, Any]) -> tuple[str, str, Any]:
        """Method, address and body that name what is planted."""
        return self.method, self._url(world), self._body(world)

    def _url(self, world: Mapping[str, Any]) -> str:
        section = self.path.split("/")[1]

        def value(found: re.Match[str]) -> str:
            name = found[1]
            for known in (f"{section}.{name}", SECTIONS.get(section, name), name):
                if known in world:
                    return str(world[known])
            raise LookupError(f"{self.id}: nothing is planted that {name!r} could name")

        return re.sub(r"\{(\w+)\}", value, self.path + QUERIES.get(self.id, ""))

    def _body(self, world: Mapping[str, Any]) -> Any:
        content = self.details.get("requestBody", {}).get("content", {})
        if not content:
            return None
        made = self._made("", content["application/json"]["schema"], world)
        return {**made, **BODIES.get(self.id, {})} if isinstance(made, dict) else made

    def _made(self, name: str, schema: Mapping[str, Any], world: Mapping[str, Any]) -> Any:
        """A value that fits the schema; the one that is planted, where there is one of the name."""
        if name and name in world:
            return str(world[name]) if schema.get("type") == "string" else world[name]
        if "$ref" in schema:
            return self._made(name, self.schemas[schema["$ref"].rpartition("/")[2]], world)
        for several in ("anyOf", "oneOf", "allOf"):
            for one in schema.get(several, []):
                if one.get("type") != "null":
                    return self._made(name, one, world)
        if "enum" in schema or "const" in schema:
            return schema.get("const", schema.get("enum", [None])[0])
        if schema.get("type") == "object" or "properties" in schema:
            parts = schema.get("properties", {})
            wanted = {*schema.get("required", []), *(parts.keys() & {"reason", "company"})}
            return {part: self._made(part, parts[part], world) for part in sorted(wanted)}
        if schema.get("type") == "array":
            return [self._made(name, schema["items"], world)]
        plain = {"integer": schema.get("minimum", 1), "number": 1.0, "boolean": False}
        return plain.get(schema.get("type", ""), "a test")


def every() -> Iterator[Operation]:
    """All operations of all APIs."""
    for api in APIS:
        schema = api.get_openapi_schema(path_prefix="/")
        for path, methods in schema["paths"].items():
            for method, details in methods.items():
                named = details["operationId"]
                yield Operation(named, method.upper(), path, details,
                                schema["components"]["schemas"])  # fmt: skip


def outside_of_the_documents() -> set[str]:
    """Ids of the operations that no document shows."""
    found = {
        operation.operation_id
        for api in APIS
        for bound in api._get_bound_routers()
        for view in bound.path_operations.values()
        for operation in view.operations
    }
    return {str(name) for name in found} - {operation.id for operation in every()}
