"""The doctor: looks for rows that contradict the invariants. Reads only, and never for long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs import conf, registry
from jobs.engine import sql
from jobs.operate import schema
from jobs.operate.bulk_invariants import BULK_INVARIANTS
from jobs.operate.event_invariants import EVENT_INVARIANTS
from jobs.operate.flow_invariants import FLOW_INVARIANTS
from jobs.operate.invariants import INVARIANTS, Invariant
from jobs.operate.search_invariants import SEARCH_INVARIANTS
from jobs.states import BIRTH_STATES, FINAL_STATES, DeadLetterState

DEPTH = 20_000
"""This many of the newest jobs are read where a check has to look at whole rows."""
EXAMPLES = 20
"""This many contradictions of one invariant are named."""
STUCK = 60.0
"""Seconds after which something that should have gone on counts as stuck."""
STATEMENT_LIMIT = "15s"

SCHEMA = Invariant(
    "schema_complete",
    "The functions are those of this version; the triggers (with the legal moves), constraints "
    "and indexes exist.",
    "",
    "run manage.py migrate; if that does nothing, restore the object by hand from the migration",
    "the migrations",
)
ISOLATION = Invariant(
    "isolation_read_committed",
    "The engine's statements run at READ COMMITTED.",
    "",
    "remove the isolation level from the database's OPTIONS and from the role",
    "the default of PostgreSQL",
)
EVERY = (
    *INVARIANTS,
    *FLOW_INVARIANTS,
    *EVENT_INVARIANTS,
    *SEARCH_INVARIANTS,
    *BULK_INVARIANTS,
    SCHEMA,
    ISOLATION,
)
"""All invariants, in the order in which they are checked."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One contradiction of an invariant."""

    invariant: str
    subject: str
    """The id of the job, or the name of the database object."""
    detail: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.subject}: {self.detail}"


def violations(
    *, depth: int = DEPTH, examples: int = EXAMPLES, stuck: float = STUCK
) -> list[Violation]:
    """Everything found that contradicts an invariant; empty on a sound database."""
    return [found for invariant in EVERY for found in check(invariant, depth, examples, stuck)]


def check(
    invariant: Invariant, depth: int = DEPTH, examples: int = EXAMPLES, stuck: float = STUCK
) -> list[Violation]:
    """The contradictions of one invariant."""
    with sql.reading(STATEMENT_LIMIT):
        if invariant is SCHEMA:
            found: list[tuple[str, str]] = list(schema.problems())
        elif invariant is ISOLATION:
            found = list(_isolation())
        else:
            query = f"SELECT * FROM ({invariant.query}) AS q LIMIT %(examples)s"  # noqa: S608 - our own
            with sql.connection().cursor() as cursor:
                cursor.execute(query, _parameters(depth, examples, stuck))
                found = [(str(row[0]), str(row[1])) for row in cursor.fetchall()]
    return [Violation(invariant.name, subject, detail) for subject, detail in found]


def _parameters(depth: int, examples: int, stuck: float) -> dict[str, Any]:
    unburied = [
        name
        for handler in registry.handlers()
        if not handler.dead_letter
        for name in (handler.kind, *handler.payload.aliases)
    ]
    lease = conf.settings().LEASE
    return {
        "depth": depth,
        "examples": examples,
        "stuck": stuck,
        "lease": lease,
        "grace": max([conf.settings().GRACE, *(h.grace for h in registry.handlers())]),
        "patience": max(stuck, 2 * lease),
        "finals": sorted(map(str, FINAL_STATES)),
        "births": sorted(map(str, BIRTH_STATES)),
        "letter_births": [str(DeadLetterState.OPEN)],
        "job_moves": schema.arrows(schema.GUARDED["jobs_job"][0]),
        "letter_moves": schema.arrows(schema.GUARDED["jobs_deadletter"][0]),
        "unburied": unburied,
    }


def _isolation() -> Iterator[tuple[str, str]]:
    [(level,)] = sql.rows("SELECT current_setting('transaction_isolation')")
    if level != "read committed":
        yield sql.alias(), f"transactions run at {level}"
