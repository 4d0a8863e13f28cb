"""What the database must hold besides tables: functions, triggers, constraints and indexes.

Their absence breaks no row today, but nothing keeps the invariants tomorrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.apps import apps

from jobs.engine import sql
from jobs.operate import functions
from jobs.states import (
    BIRTH_STATES,
    DEAD_LETTER_EDGES,
    FINAL_STATES,
    JOB_EDGES,
    OUTBOX_EDGES,
    OUTBOX_FINAL_STATES,
    DeadLetterState,
    OutboxState,
    moves,
)

TELLERS = {
    "jobs_job_tell": "jobs_job",
    "jobs_job_remember": "jobs_job",
    "jobs_job_close_delivery": "jobs_job",
    "jobs_attempt_tell": "jobs_attempt",
    "jobs_batch_tell": "jobs_batch",
    "jobs_limiter_tell": "jobs_limiter",
    "jobs_limiter_tell_new": "jobs_limiter",
    "jobs_limiter_tell_rate": "jobs_limiter",
    "jobs_breaker_tell": "jobs_breaker",
    "jobs_breaker_tell_new": "jobs_breaker",
    "jobs_meter_tell": "jobs_meter",
    "jobs_effect_tell": "jobs_effect",
    "jobs_feed_fixed": "jobs_feed",
    "jobs_audit_fixed": "jobs_audit",
}
"""The triggers that tell events or what else has to be known, and those that keep feed and audit as
they are, by table."""
TABLES = tuple(sorted(m._meta.db_table for m in apps.get_app_config("jobs").get_models()))

_LETTER_BIRTHS = frozenset({DeadLetterState.OPEN})
_LETTER_FINALS = frozenset(DeadLetterState) - _LETTER_BIRTHS
GUARDED = {
    "jobs_job": (moves(JOB_EDGES), BIRTH_STATES, FINAL_STATES),
    "jobs_deadletter": (moves(DEAD_LETTER_EDGES), _LETTER_BIRTHS, _LETTER_FINALS),
    "jobs_outbox": (moves(OUTBOX_EDGES), frozenset({OutboxState.PENDING}), OUTBOX_FINAL_STATES),
}
"""Legal moves, states of birth and states of death of the guarded tables."""


def tables() -> list[str]:
    """Every table of the app."""
    return sorted(model._meta.db_table for model in apps.get_app_config("jobs").get_models())


def arrows(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Moves as the triggers spell them: ``from>to``."""
    return sorted(f"{source}>{target}" for source, target in pairs)


def problems() -> Iterator[tuple[str, str]]:
    """What is missing or differs, as (object, problem)."""
    yield from functions.problems()
    for table in GUARDED:
        yield from _triggers(table)
    yield from _tellers()
    yield from _constraints_and_indexes()


_TRIGGERS = """
SELECT t.tgname, t.tgenabled, encode(t.tgargs, 'escape'), pg_get_triggerdef(t.oid)
FROM pg_trigger t WHERE t.tgrelid = to_regclass(%s) AND NOT t.tgisinternal
"""


def _triggers(table: str) -> Iterator[tuple[str, str]]:
    legal, births, finals = GUARDED[table]
    found = {name: rest for name, *rest in sql.rows(_TRIGGERS, [table])}
    for part in ("guard", "birth", "death"):
        name = f"{table}_{part}"
        if name not in found:
            yield name, "the trigger is missing"
            continue
        enabled, arguments, definition = found[name]
        if enabled not in ("O", "A"):
            yield name, "the trigger is disabled"
        if part == "guard":
            told = {argument for argument in arguments.split("\\000") if argument}
            for move in sorted(told ^ set(arrows(legal))):
                yield name, f"{'allows' if move in told else 'does not allow'} {move}"
        else:
            states = births if part == "birth" else finals
            for state in sorted(s for s in states if f"'{s}'" not in definition):
                yield name, f"does not know the state {state}"


def _tellers() -> Iterator[tuple[str, str]]:
    found: dict[str, str] = dict(
        sql.rows(
            "SELECT t.tgname, t.tgenabled FROM pg_trigger t WHERE NOT t.tgisinternal "
            "AND t.tgrelid IN (SELECT to_regclass(n) FROM unnest(%s::text[]) n)",
            [sorted(set(TELLERS.values()))],
        )
    )
    for name in TELLERS:
        if name not in found:
            yield name, "the trigger is missing"
        elif found[name] not in ("O", "A"):
            yield name, "the trigger is disabled"


def _constraints_and_indexes() -> Iterator[tuple[str, str]]:
    constraints: dict[str, bool] = dict(
        sql.rows(
            "SELECT conname, convalidated FROM pg_constraint "
            "WHERE conrelid IN (SELECT to_regclass(t) FROM unnest(%s::text[]) t)",
            [tables()],
        )
    )
    indexes: dict[str, bool] = dict(
        sql.rows(
            "SELECT c.relname, i.indisvalid FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid "
            "WHERE i.indrelid IN (SELECT to_regclass(t) FROM unnest(%s::text[]) t)",
            [tables()],
        )
    )
    for model in apps.get_app_config("jobs").get_models():
        meta = model._meta
        for name in sorted(c.name for c in meta.constraints):
            valid = constraints.get(name, indexes.get(name))
            if not valid:
                yield name, "the constraint is " + ("missing" if valid is None else "not valid")
        for name in sorted(i.name for i in meta.indexes):
            valid = indexes.get(name)
            if not valid:
                yield name, "the index is " + ("missing" if valid is None else "not valid")
