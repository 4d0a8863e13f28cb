"""A query as data, in its one spelling and as a condition in SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from jobs import registry
from jobs.operate.query import values
from jobs.operate.query.keys import KEYS, PAYLOAD, Condition, Key, payload_key
from jobs.operate.query.lexer import quoted
from jobs.principals import EVERYTHING, Scope


@dataclass(frozen=True, slots=True)
class Term:
    """One condition."""

    key: str
    op: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{'-' if self.negated else ''}{self.key}{self.op}{quoted(self.value)}"

    @property
    def spec(self) -> Key:
        return KEYS.get(self.key) or payload_key(self.key)

    @property
    def is_payload(self) -> bool:
        return self.key.startswith(PAYLOAD)


@dataclass(frozen=True, slots=True)
class Query:
    """All the conditions hold; of those with the same key and ``:`` any one does."""

    terms: tuple[Term, ...] = field(default=())

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    @property
    def permissions(self) -> frozenset[str]:
        """What somebody must be allowed beside seeing jobs: to ask is to see."""
        payload = any(term.is_payload for term in self.terms)
        return frozenset({"view_payload"}) if payload else frozenset()

    def positive(self, key: str) -> tuple[str, ...]:
        """The values of which one is asked for by the key."""
        return tuple(t.value for t in self.terms if t.key == key and t.op == ":" and not t.negated)

    def declaring(self, path: str) -> tuple[str, ...]:
        """The kinds among those asked for whose jobs are found by the path; empty: not all are."""
        found = {h.kind for h in registry.handlers() if path in h.searchable}
        asked = self.positive("kind")
        if not asked:
            return tuple(sorted(found))
        return tuple(sorted(set(asked))) if set(asked) <= found else ()

    def frozen(self, now: datetime) -> Query:
        """The same with every time counted from ``now``, so that it asks for the same later."""
        return Query(tuple(_frozen(term, now) for term in self.terms))

    def where(
        self, scope: Scope = EVERYTHING, *, until: datetime | None = None
    ) -> tuple[str, list[Any]]:
        """The condition on the job's row ``j`` and its parameters, within the scope.

        With ``until`` only jobs that were there at that moment.
        """
        parts = [*self._groups(), *in_scope(scope)]
        if until is not None:
            parts.append(("j.created_at <= %s", [until]))
        return _joined(parts, " AND ") if parts else ("true", [])

    def _groups(self) -> Iterable[Condition]:
        groups: dict[object, list[Term]] = {}
        for term in self.terms:
            together = (term.key, term.negated) if term.op == ":" else term
            groups.setdefault(together, []).append(term)
        for terms in groups.values():
            first = terms[0]
            conditions = [term.spec.condition(term.op, term.value) for term in terms]
            text, parameters = _joined(conditions, " OR ")
            if first.negated:
                yield f"NOT coalesce({text}, false)", parameters
                continue
            yield text, parameters
            path = first.key.removeprefix(PAYLOAD)
            if first.is_payload and not self.positive("kind") and (kinds := self.declaring(path)):
                yield "j.kind = ANY(%s)", [list(kinds)]


def in_scope(scope: Scope) -> list[Condition]:
    """What of the jobs the scope lets be seen."""
    found: list[Condition] = []
    if scope.tenants is not None:
        found.append(("j.tenant = ANY(%s::text[])", [sorted(scope.tenants)]))
    if scope.queues is not None:
        found.append(("j.queue = ANY(%s::text[])", [sorted(scope.queues)]))
    return found


def _joined(conditions: Iterable[Condition], word: str) -> Condition:
    known = list(conditions)
    text = word.join(f"({condition})" for condition, _ in known)
    return f"({text})", [one for _, parameters in known for one in parameters]


def _frozen(term: Term, now: datetime) -> Term:
    if term.spec.read is values.moment and term.value.startswith("-"):
        _, [at] = values.bound(term.value, now)
        return replace(term, value=values.moment(at))
    return term
