"""``docs/states.md``, written from the tables in ``states``.

::

    python -m jobs.states_doc > docs/states.md
"""

from __future__ import annotations

import ast
import inspect
import sys
from enum import StrEnum
from itertools import pairwise

from jobs import states
from jobs.states import (
    BIRTH_STATES,
    DEAD_LETTER_EDGES,
    FINAL_STATES,
    JOB_EDGES,
    OUTBOX_EDGES,
    OUTBOX_FINAL_STATES,
    RETRYABLE_STATES,
    DeadLetterState,
    Edge,
    JobState,
    OutboxState,
)

_HEAD = """# States

Generated from `jobs/states.py`. Triggers in the database reject every move that is not listed here,
and append every other move to the row's `history`, whatever code makes it.
"""


def render() -> str:
    """The whole page."""
    births = {DeadLetterState.OPEN}
    finals = set(DeadLetterState) - births
    parts = [
        _HEAD,
        "## A job\n",
        _states(JobState, {str(s) for s in BIRTH_STATES}, {str(s) for s in FINAL_STATES}),
        _retryable(),
        _diagram(JOB_EDGES, [str(s) for s in BIRTH_STATES], [JobState.SUCCEEDED.value]),
        _table(JOB_EDGES),
        "## A dead letter\n",
        _states(DeadLetterState, {str(s) for s in births}, {str(s) for s in finals}),
        _diagram(DEAD_LETTER_EDGES, [str(s) for s in births], sorted(str(s) for s in finals)),
        _table(DEAD_LETTER_EDGES),
        "## An event in the outbox\n",
        _states(OutboxState, {OutboxState.PENDING}, {str(s) for s in OUTBOX_FINAL_STATES}),
        _diagram(
            OUTBOX_EDGES, [OutboxState.PENDING.value], sorted(str(s) for s in OUTBOX_FINAL_STATES)
        ),
        _table(OUTBOX_EDGES),
    ]
    return "\n".join(parts)


def _states(enum: type[StrEnum], births: set[str], finals: set[str]) -> str:
    meanings = _meanings(enum)
    lines = ["| state | meaning | |", "|---|---|---|"]
    for state in enum:
        notes = ["initial"] * (state.value in births) + ["final"] * (state.value in finals)
        lines.append(f"| `{state.value}` | {meanings[state.name]} | {', '.join(notes)} |")
    return "\n".join(lines) + "\n"


def _retryable() -> str:
    names = ", ".join(f"`{state}`" for state in sorted(RETRYABLE_STATES))
    return f"A retry can move a job out of {names}; `succeeded` is never left.\n"


def _diagram(edges: tuple[Edge, ...], births: list[str], ends: list[str]) -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in sorted(births)]
    names: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        for source in edge.sources:
            names.setdefault((source.value, edge.target.value), []).append(edge.name)
    lines += [f"    {a} --> {b}: {', '.join(by)}" for (a, b), by in names.items()]
    lines += [f"    {state} --> [*]" for state in ends]
    return "\n".join([*lines, "```\n"])


def _table(edges: tuple[Edge, ...]) -> str:
    lines = ["| edge | from | to | when |", "|---|---|---|---|"]
    for edge in edges:
        sources = ", ".join(f"`{source.value}`" for source in edge.sources)
        lines.append(f"| {edge.name} | {sources} | `{edge.target.value}` | {edge.meaning} |")
    return "\n".join(lines) + "\n"


def _meanings(enum: type[StrEnum]) -> dict[str, str]:
    """The text below each member in the source; Python keeps none of it."""
    tree = ast.parse(inspect.getsource(states))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found = {}
    for member, text in pairwise(classes[enum.__name__].body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            target, constant = member.targets[0], text.value
            assert isinstance(target, ast.Name) and isinstance(constant, ast.Constant)  # noqa: S101
            found[target.id] = " ".join(str(constant.value).split())
    return found


if __name__ == "__main__":
    sys.stdout.write(render())
