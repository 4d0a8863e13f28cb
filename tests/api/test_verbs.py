"""What people can do is the same list wherever they do it."""

from __future__ import annotations

from jobs.cli import operating
from jobs.operate.verbs import BY_NAME, VERBS
from tests.api import operations

NO_ACTS = {
    "job_enqueue", "job_enqueue_many", "batch_create", "batch_add", "batch_seal",
    "bulk_preview", "schedule_preview", "blackout_preview", "event_ticket",
}  # fmt: skip
"""Operations that write nothing, or what code does as well: they are no verbs of people."""
KEYS = {"apikey.create", "apikey.rotate", "apikey.revoke"}
"""Verbs about the keys of the API itself, which are not in the list."""


def offered() -> dict[str, set[str]]:
    """The verbs of each face, by their names; a further face joins here."""
    api = {op.details["x-verb"] for op in operations.OF_JOBS if "x-verb" in op.details}
    commands = {verb.name for verb in VERBS if verb.function in operating.covered()}
    return {"api": api - KEYS, "command line": commands}


def test_every_face_offers_every_verb() -> None:
    for face, names in offered().items():
        assert names == set(BY_NAME), face


def test_whatever_writes_is_a_verb_or_known_to_be_none() -> None:
    writing = {op.id for op in operations.OF_JOBS if op.method != "GET"}
    acting = {op.id for op in operations.OF_JOBS if "x-verb" in op.details}
    assert acting == writing - NO_ACTS


def test_an_operation_needs_the_permission_of_its_verb() -> None:
    for op in operations.ALL:
        if verb := BY_NAME.get(op.details.get("x-verb", "")):
            assert op.needs == verb.permission, op.id
