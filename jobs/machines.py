"""The states of a domain model: edges as data, moves as compare-and-set.

::

    plans = jobs.machines.machine(Plan, "status", {
        "draft": ["ready"],
        "ready": ["approved", "draft"],
        "approved": ["scheduled"],
    }, on_move=announce)

    plans.move(plan, "ready", by=user.username, why="complete", reviewed_at=now)
    plans.walk(plan, ["ready", "approved"], by="nightly check")
    plans.move_many(Plan.objects.filter(owner=owner), "draft", expect="ready")

A move is an UPDATE that names the state it leaves, in the caller's transaction; it happens, with
all that ``on_move`` does, or it raises and has written nothing.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeVar, cast

from django.core.exceptions import FieldDoesNotExist
from django.db import models, router, transaction
from django.db.models import Q, QuerySet
from django.db.models.expressions import BaseExpression

from jobs.errors import IllegalMove, MachineError, StaleState

M = TypeVar("M", bound=models.Model)
States = str | Iterable[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """One row went from one state to another; what ``on_move`` is told."""

    model: type[models.Model]
    pk: Any
    field: str
    source: str
    to: str
    by: str = ""
    why: str = ""
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The other columns that were set with the move."""
    using: str = "default"
    """The database alias of the transaction."""
    instance: models.Model | None = dataclasses.field(default=None, repr=False, compare=False)
    """The row as the caller had it in memory, where it did: as it was before the move."""


@dataclasses.dataclass(frozen=True, slots=True)
class Moves:
    """What became of a batch."""

    moved: tuple[Moved, ...]
    refused: Mapping[Any, str]
    """The rows that stayed, by their keys, with the states they are in."""


OnMove = Callable[[Moved], object]
OnMoves = Callable[[Sequence[Moved]], object]


class Edge:
    """A named way from any of its sources to its target."""

    __slots__ = ("meaning", "name", "sources", "target")

    def __init__(self, name: str, sources: States, target: str, meaning: str = "") -> None:
        self.name, self.target, self.meaning = name, str(target), meaning
        self.sources = _several(sources)

    def __repr__(self) -> str:
        return f"Edge({self.name!r}, {self.sources!r}, {self.target!r})"


Edges = Mapping[Any, States] | Sequence[Edge]


def machine(
    model: type[M],
    field: str,
    edges: Edges,
    on_move: OnMove | None = None,
    on_moves: OnMoves | None = None,
) -> Machine[M]:
    """The machine of the model's field; raises MachineError where the edges make no sense.

    ``edges`` maps each state to those it may become, or is a list of ``Edge`` with names and
    meanings. ``on_move`` is called with a ``Moved`` in the transaction of every move; ``on_moves``
    with all that one call has moved, for a caller that writes them down together.
    """
    return Machine(model, field, edges, on_move, on_moves)


class Machine(Generic[M]):
    """Moves rows of a model along declared edges, and refuses everything else."""

    def __init__(
        self,
        model: type[M],
        field: str,
        edges: Edges,
        on_move: OnMove | None = None,
        on_moves: OnMoves | None = None,
    ) -> None:
        self.model, self.field = model, field
        self._on_move, self._on_moves = on_move, on_moves
        self._label, self._pk = f"{model.__name__}.{field}", model._meta.pk
        self.edges = _as_edges(edges)
        self.states = self._validated()
        self._ways: dict[str, tuple[str, ...]] = {
            state: tuple(e.target for e in self.edges if state in e.sources)
            for state in self.states
        }

    def __repr__(self) -> str:
        return f"<Machine {self._label}>"

    def ways(self, state: str) -> tuple[str, ...]:
        """The states that this state may become."""
        return self._ways.get(str(state), ())

    def may(self, row: M | str, to: str) -> bool:
        """Whether the row, as it is in memory, or the state, may become that."""
        state = row if isinstance(row, str) else getattr(row, self.field)
        return str(to) in self.ways(state)

    def move(
        self,
        row: M | Any,
        to: str,
        *,
        expect: States | None = None,
        given: Q | None = None,
        by: str = "",
        why: str = "",
        **fields: Any,
    ) -> Moved:
        """The row is in the state ``to``, and ``fields`` are set; answers where it came from.

        ``row`` is an instance, which is brought up to date and is expected to be in the state that
        it shows, or a primary key. ``expect`` names the states that it may be found in instead,
        ``given`` what else must hold of it. Raises IllegalMove, StaleState or the model's
        DoesNotExist; then nothing was written.
        """
        [moved] = self.walk(row, [to], expect=expect, given=given, by=by, why=why, **fields)
        return moved

    def walk(
        self,
        row: M | Any,
        path: Iterable[str],
        *,
        expect: States | None = None,
        given: Q | None = None,
        by: str = "",
        why: str = "",
        **fields: Any,
    ) -> tuple[Moved, ...]:
        """The row has gone through the states of the path; answers its moves in their order.

        All of them or none, like one ``move``: the row is written once, with the last state and
        ``fields``, which belong to the last move.
        """
        states = self._path(path)
        instance = row if isinstance(row, self.model) else None
        pk = self._pk.to_python(row) if instance is None else instance.pk
        expected = self._expected(instance, expect)
        likely = str(getattr(instance, self.field)) if instance else "".join(expected[:1])
        columns = {**self._columns(states[-1], fields), self.field: states[-1]}
        using = router.db_for_write(self.model, instance=instance)
        with transaction.atomic(using=using):
            found = self._rows(using).filter(pk=pk)
            source = self._enter(found, pk, states, expected, likely, given, columns)
            moved = tuple(
                Moved(self.model, pk, self.field, left, to, by, why,
                      dict(fields) if number == len(states) else {}, using, instance)
                for number, (left, to) in enumerate(pairwise((source, *states)), start=1)
            )  # fmt: skip
            self._tell(moved)
        if instance is not None:
            self._bring_up_to_date(instance, columns)
        return moved

    def move_many(
        self,
        rows: QuerySet[M] | Iterable[Any],
        to: str,
        *,
        expect: States | None = None,
        by: str = "",
        why: str = "",
        **fields: Any,
    ) -> Moves:
        """Those of the rows (a queryset, or instances or primary keys) that may go are in ``to``.

        The others are named in ``refused``. Rows are locked in the order of their keys.
        """
        target, expected = str(to), self._expected(None, expect)
        columns = self._columns(target, fields)
        leaving = expected or tuple(s for s in self.states if target in self._ways[s])
        wanted = self._wanted(rows)
        using = router.db_for_write(self.model)
        with transaction.atomic(using=using):
            found = dict(
                self._rows(using)
                .filter(pk__in=wanted)
                .order_by("pk")
                .select_for_update(no_key=True)
                .values_list("pk", self.field)
            )
            legal = {pk: s for pk, s in found.items() if s in leaving and self.may(s, target)}
            self._rows(using).filter(pk__in=list(legal)).update(**{**columns, self.field: target})
            moved = tuple(
                Moved(self.model, pk, self.field, source, target, by, why, dict(fields), using)
                for pk, source in legal.items()
            )
            self._tell(moved)
        return Moves(moved, {pk: s for pk, s in found.items() if pk not in legal})

    def table(self) -> str:
        """The edges as a table in Markdown."""
        lines = ["| edge | from | to | when |", "|---|---|---|---|"]
        for edge in self.edges:
            sources = ", ".join(f"`{source}`" for source in edge.sources)
            lines.append(f"| {edge.name} | {sources} | `{edge.target}` | {edge.meaning} |")
        return "\n".join(lines) + "\n"

    def diagram(self) -> str:
        """The edges as a state diagram in Mermaid, fenced for Markdown."""
        lines = ["```mermaid", "stateDiagram-v2"]
        lines += [
            f"    {source} --> {edge.target}" + (f": {edge.name}" if edge.name else "")
            for edge in self.edges
            for source in edge.sources
        ]
        return "\n".join([*lines, "```\n"])

    # ---- one row

    def _enter(
        self,
        row: QuerySet[M],
        pk: Any,
        path: tuple[str, ...],
        expected: tuple[str, ...],
        likely: str,
        given: Q | None,
        columns: dict[str, Any],
    ) -> str:
        """The row has the columns; answers the state that it has left for the first of the path."""
        wanted = row if given is None else row.filter(given)
        # Nobody has to be asked first: the row is written if it is in the state that is likely.
        there = wanted.filter(**{self.field: likely})
        if likely in expected and path[0] in self.ways(likely) and there.update(**columns):
            return likely
        source = self._lock(row, pk, path[0], expected)
        if given is not None and not wanted.exists():
            raise StaleState(self._subject(pk), source, (), self.ways(source))
        row.update(**columns)
        return source

    def _lock(self, row: QuerySet[M], pk: Any, to: str, expected: tuple[str, ...]) -> str:
        """The state of the locked row, from which it may go."""
        locked = row.select_for_update(no_key=True).values_list(self.field, flat=True)
        found = locked.first()
        if found is None:
            if row.exists():
                raise MachineError(f"{self._label} of {pk!r} is NULL, which is no state")
            missing = cast("Any", self.model).DoesNotExist
            raise missing(f"{self.model.__name__} {pk!r} does not exist")
        if expected and found not in expected:
            raise StaleState(self._subject(pk), found, expected, self.ways(found))
        if to not in self.ways(found):
            raise IllegalMove(self._subject(pk), found, to, self.ways(found))
        return str(found)

    def _subject(self, pk: Any) -> str:
        return f"{self.model.__name__} {pk}"

    def _tell(self, moved: tuple[Moved, ...]) -> None:
        if self._on_move is not None:
            for each in moved:
                self._on_move(each)
        if self._on_moves is not None and moved:
            self._on_moves(moved)

    def _rows(self, using: str) -> QuerySet[M]:
        # A manager of the project's own may hide rows.
        return self.model._base_manager.using(using).order_by()

    def _expected(self, instance: M | None, expect: States | None) -> tuple[str, ...]:
        if expect is not None:
            states = _several(expect)
            for state in states:
                self._known(state, "expect")
            if not states:
                raise MachineError(f"{self._label}: expect names no state")
            return states
        return () if instance is None else (str(getattr(instance, self.field)),)

    def _path(self, path: Iterable[str]) -> tuple[str, ...]:
        """The states of the path, each of which may become the next."""
        states = _several(path)
        if not states:
            raise MachineError(f"{self._label}: path names no state")
        for state in states:
            self._known(state, "to")
        for left, to in pairwise(states):
            if to not in self.ways(left):
                raise MachineError(f"{self._label}: path: {left!r} cannot become {to!r}")
        return states

    def _columns(self, to: str, fields: dict[str, Any]) -> dict[str, Any]:
        """What is set besides the state, checked, with the columns that Django sets on a save."""
        self._known(to, "to")
        known = {f.name: f for f in self.model._meta.concrete_fields}
        for name in fields:
            if name == self.field or name in ("pk", self._pk.name):
                raise MachineError(f"{self._label}: {name!r} is not set by a move")
            if name not in known:
                raise MachineError(
                    f"{self._label}: {self.model.__name__} has no field {name!r}"
                    f"{_near(name, known)}"
                )
        stamped = [n for n in known if getattr(known[n], "auto_now", False) and n not in fields]
        stamps = {name: known[name].pre_save(self.model(), False) for name in stamped}
        return {**stamps, **fields}

    def _bring_up_to_date(self, instance: M, columns: dict[str, Any]) -> None:
        for name, value in columns.items():
            if not isinstance(value, BaseExpression | models.F):
                setattr(instance, name, value)
            else:
                instance.__dict__.pop(name, None)  # Django reads it again when it is asked for

    def _wanted(self, rows: QuerySet[M] | Iterable[Any]) -> Any:
        if isinstance(rows, QuerySet):
            # Read first: the rows that it finds are those that it found before the locks.
            return list(rows.values_list("pk", flat=True))
        return [row.pk if isinstance(row, models.Model) else row for row in rows]

    # ---- the declaration

    def _validated(self) -> tuple[str, ...]:
        """The states, in the order of the field's choices or else of the edges."""
        try:
            column = self.model._meta.get_field(self.field)
        except FieldDoesNotExist:
            names = [f.name for f in self.model._meta.concrete_fields]
            raise MachineError(
                f"{self.model.__name__} has no field {self.field!r}{_near(self.field, names)}"
            ) from None
        if not self.edges:
            raise MachineError(f"{self._label}: there are no edges")
        pairs = [(source, e.target) for e in self.edges for source in e.sources]
        for pair in pairs:
            if pairs.count(pair) > 1:
                raise MachineError(f"{self._label}: {pair[0]!r} > {pair[1]!r} is declared twice")
        named = dict.fromkeys(state for pair in pairs for state in pair)
        choices = tuple(str(value) for value, _ in getattr(column, "flatchoices", ()) if value)
        for state in named:
            if choices and state not in choices:
                raise MachineError(
                    f"{self._label}: {state!r} is none of its choices{_near(state, choices)}"
                )
        return choices or tuple(named)

    def _known(self, state: str, argument: str) -> None:
        if state not in self.states:
            raise MachineError(
                f"{self._label}: {argument}={state!r} is no state{_near(state, self.states)}"
            )


def _as_edges(edges: Edges) -> tuple[Edge, ...]:
    if isinstance(edges, Mapping):
        return tuple(
            Edge("", str(source), target)
            for source, targets in edges.items()
            for target in _several(targets)
        )
    if not all(isinstance(edge, Edge) for edge in edges):
        raise MachineError("edges must map states to states, or be a list of jobs.machines.Edge")
    return tuple(edges)


def _several(states: States) -> tuple[str, ...]:
    return (str(states),) if isinstance(states, str) else tuple(str(state) for state in states)


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
