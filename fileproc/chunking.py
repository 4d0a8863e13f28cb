"""Cutting text into chunks: linear on any input, and every part of the text is in one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fileproc import config
from fileproc.errors import FileError

_SENTENCE = re.compile(r"(?<=[.!?…])[\"')\]]*\s+|\n{2,}|\f|(?<=[\u3002\uff01\uff1f])")
_LINE = re.compile(r"\n")
_BLANK = re.compile(r"\s*")
LETTERS = 4
"""Characters of a token at most, on average: what has none, such as spaces, is cut by length."""
Count = Callable[[str], int]
Heading = Sequence[int | str]


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk, with its place in the text."""

    start: int
    end: int
    text: str
    tokens: int
    pages: tuple[int, int] | None
    headings: tuple[str, ...]


def chunk(
    text: str,
    *,
    size: int,
    overlap: int,
    count: Count,
    pages: Sequence[int] = (),
    headings: Sequence[Heading] = (),
    is_table: bool = False,
) -> list[Piece]:
    """Return the chunks of a text, none of them blank; raise FileError beyond the limit.

    A chunk begins with each heading. Tables are cut at the ends of rows.
    """
    cuts = sorted({0, *(int(h[0]) for h in headings), len(text)})
    found = []
    for start, end in pairwise(cuts):
        for a, b in _spans(text, start, end, size, overlap, count, is_table):
            if text[a:b].strip():
                found.append((a, b))
                if len(found) > config.CHUNKS_LIMIT:
                    raise FileError("LIMIT_EXCEEDED")
    paths = _paths(headings)
    starts = [place for place, _ in paths]
    return [
        Piece(
            a, b, text[a:b], count(text[a:b]), _pages(pages, a, b, text),
            paths[at - 1][1] if (at := bisect_right(starts, a)) else (),
        )
        for a, b in found
    ]  # fmt: skip


def _spans(
    text: str, start: int, end: int, size: int, overlap: int, count: Count, is_table: bool
) -> Iterator[tuple[int, int]]:
    current: list[tuple[int, int, int]] = []
    total = 0
    for unit in _units(text, start, end, size, count, _LINE if is_table else _SENTENCE):
        if current and total + unit[2] > size:
            yield current[0][0], current[-1][1]
            current = _tail(current, overlap, size - unit[2])
            total = sum(tokens for _, _, tokens in current)
        current.append(unit)
        total += unit[2]
    if current:
        yield current[0][0], current[-1][1]


def _tail(units: list[tuple[int, int, int]], overlap: int, room: int) -> list[tuple[int, int, int]]:
    kept: list[tuple[int, int, int]] = []
    total = 0
    for unit in reversed(units):
        total += unit[2]
        if total > min(overlap, room):
            break
        kept.append(unit)
    return kept[::-1]


def _units(
    text: str, start: int, end: int, size: int, count: Count, border: re.Pattern[str]
) -> Iterator[tuple[int, int, int]]:
    """Yield sentences or rows with their tokens; those that are too long are cut."""
    place = start
    for found in border.finditer(text, start, end):
        if found.end() > place:
            yield from _fitting(text, place, found.end(), size, count)
            place = found.end()
    if place < end:
        yield from _fitting(text, place, end, size, count)


def _fitting(
    text: str, start: int, end: int, size: int, count: Count
) -> Iterator[tuple[int, int, int]]:
    for a, b in _cut(text, start, end, size * LETTERS):
        tokens = count(text[a:b])
        if tokens <= size:
            yield a, b, tokens
            continue
        # Dense text, such as digits: in parts of about half the size, which surely fit.
        for c, d in _cut(text, a, b, max(1, (b - a) * size // (tokens + 1) // 2)):
            yield c, d, count(text[c:d])


def _cut(text: str, start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    while end - start > longest:
        half = start + longest // 2
        border = max(
            text.rfind(" ", half, start + longest), text.rfind("\n", half, start + longest)
        )
        stop = border + 1 if border > start else start + longest
        yield start, stop
        start = stop
    if end > start:
        yield start, end


def _pages(pages: Sequence[int], start: int, end: int, text: str) -> tuple[int, int] | None:
    """Return the first and the last page of a chunk, without the blanks around it."""
    if not pages:
        return None
    blank = _BLANK.match(text, start, end)
    first = bisect_right(pages, blank.end() if blank else start)
    length = len(text[start:end].rstrip())
    return max(1, first), max(1, first, bisect_right(pages, start + max(length, 1) - 1))


def _paths(headings: Sequence[Heading]) -> list[tuple[int, tuple[str, ...]]]:
    """Return where each path of headings begins."""
    found, path = [], list[tuple[int, str]]()
    for place, level, title in headings:
        path = [(n, words) for n, words in path if n < int(level)]
        path.append((int(level), str(title)))
        found.append((int(place), tuple(words for _, words in path)))
    return found
