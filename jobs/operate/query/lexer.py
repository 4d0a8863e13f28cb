"""A query's text, cut into pieces: key, comparison, value and where each began."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.errors import QueryError

LENGTH_LIMIT = 2000
_FORBIDDEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_SPACE = re.compile(r"\s*")
_HEAD = re.compile(r"(?P<minus>-?)(?P<key>[A-Za-z_][A-Za-z0-9_.\-]*)(?P<op>:|>=|<=|>|<)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_BARE = re.compile(r'[^\s"]+')
_PLAIN = re.compile(r'[^\s"\\]+\Z')


@dataclass(frozen=True, slots=True)
class Piece:
    key: str
    op: str
    value: str
    negated: bool
    position: int
    value_position: int


def pieces(text: str) -> Iterator[Piece]:
    """Every piece in its order; raises QueryError where the text is none of it."""
    if len(text) > LENGTH_LIMIT:
        raise QueryError(LENGTH_LIMIT, f"the query is longer than {LENGTH_LIMIT} characters")
    if found := _FORBIDDEN.search(text):
        raise QueryError(found.start(), "a control character cannot be asked for")
    at = _after_space(text, 0)
    while at < len(text):
        head = _HEAD.match(text, at)
        if head is None:
            word = _BARE.match(text, at)
            raw = word[0] if word else text[at]
            raise QueryError(at, f"{raw[:40]!r} is no key:value", f"kind:{raw[:40]}*")
        value, end = _value(text, head.end())
        if end < len(text) and not text[end].isspace():
            raise QueryError(end, "a space must stand between two conditions")
        yield Piece(head["key"], head["op"], value, bool(head["minus"]), at, head.end())
        at = _after_space(text, end)


def quoted(value: str) -> str:
    """The value as it stands in a query."""
    if _PLAIN.match(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _value(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] == '"':
        found = _QUOTED.match(text, at)
        if found is None:
            raise QueryError(at, "the quotes are not closed")
        return re.sub(r"\\(.)", r"\1", found[1]), found.end()
    bare = _BARE.match(text, at)
    if bare is None:
        raise QueryError(at, "a value is missing")
    return bare[0], bare.end()


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
