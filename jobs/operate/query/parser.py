"""Text to query; whatever is wrong raises QueryError with its place."""

from __future__ import annotations

import difflib
import re
from uuid import UUID

from jobs.errors import QueryError
from jobs.operate.query.keys import KEYS, PAYLOAD, Key, payload_key
from jobs.operate.query.lexer import Piece, pieces
from jobs.operate.query.terms import Query, Term
from jobs.operate.query.values import BadValue

TERM_LIMIT = 50
_PATH = re.compile(r"payload(\.[A-Za-z0-9_\-]+){1,8}\Z")


def parse(text: str) -> Query:
    """The query that the text says; an id alone asks for that job."""
    if not isinstance(text, str):
        raise QueryError(0, "a query must be text")
    if _is_id(text.strip()):
        return Query((Term("id", ":", str(UUID(text.strip()))),))
    terms: list[Term] = []
    for piece in pieces(text):
        if len(terms) == TERM_LIMIT:
            raise QueryError(piece.position, f"more than {TERM_LIMIT} conditions")
        terms.append(_term(piece))
    return Query(tuple(dict.fromkeys(terms)))


def _term(piece: Piece) -> Term:
    key = _key(piece)
    if piece.op not in key.ops:
        allowed = " or ".join(f"{piece.key}{op}" for op in key.ops)
        raise QueryError(piece.position, f"{piece.key}{piece.op} makes no sense; use {allowed}")
    try:
        value = key.read(piece.value)
    except BadValue as error:
        hint = f"{piece.key}{piece.op}{error.hint}" if error.hint else ""
        raise QueryError(piece.value_position, f"{piece.key}: {error}", hint) from None
    return Term(piece.key, piece.op, value, piece.negated)


def _key(piece: Piece) -> Key:
    if piece.key in KEYS:
        return KEYS[piece.key]
    if _PATH.match(piece.key):
        return payload_key(piece.key)
    if piece.key.startswith(PAYLOAD):
        raise QueryError(piece.position, f"{piece.key[:60]!r} is no path into a payload")
    near = difflib.get_close_matches(piece.key.lower(), KEYS, n=1)
    raise QueryError(
        piece.position, f"there is no key {piece.key[:60]!r}", near[0] + piece.op if near else ""
    )


def _is_id(text: str) -> bool:
    try:
        return len(text) in (32, 36) and bool(UUID(text))
    except ValueError:
        return False
