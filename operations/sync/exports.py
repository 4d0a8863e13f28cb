"""Exports: a line with the columns, a line for each row, and a trailer with count and checksum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

LONGEST_LINE = 64 * 1024
LONGEST_KEY = 120
REFERENCE = "reference"
"""A column that any export may have: the id of the operation that has made the row."""


class ExportInvalid(Exception):
    """An export is incomplete, or its format has changed; nothing of it is used."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


def save(pieces: Iterable[bytes], path: Path, begun: float) -> None:
    """Write a complete export to a file that only this user can read; raise ExportInvalid.

    The file gets the time at which the download began. An incomplete download leaves no file.
    """
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            _check(_copied(_lines(pieces), file))
        os.utime(part, (begun, begun))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _copied(lines: Iterable[bytes], file: Any) -> Iterator[bytes]:
    for line in lines:
        file.write(line)
        yield line


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
        if len(rest) > LONGEST_LINE:
            raise ExportInvalid("export_line_too_long")
    if rest:
        yield rest


def _check(lines: Iterable[bytes]) -> None:
    """Check that the last line is the trailer of all others."""
    hashed, before, count = hashlib.sha256(), b"", -2
    for line in lines:
        hashed.update(before)
        before, count = line, count + 1
    try:
        trailer = json.loads(before)
    except ValueError:
        trailer = None
    if not isinstance(trailer, dict) or "sha256" not in trailer:
        raise ExportInvalid("export_truncated")
    if (trailer.get("count"), trailer["sha256"]) != (count, hashed.hexdigest()):
        raise ExportInvalid("export_wrong_trailer")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of an export; ``invalid`` names its invalid columns."""

    number: int
    key: str
    values: dict[str, str]
    invalid: tuple[str, ...] = ()
    reference: str = ""


def read(path: Path, columns: Sequence[str], numbers: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a complete export; raise ExportInvalid unless it has these columns."""
    with path.open("rb") as file:
        found = _json(file.readline())
        names = found.get("columns") if isinstance(found, dict) else None
        complete = (sorted(columns), sorted([*columns, REFERENCE]))
        if not isinstance(names, list) or sorted(map(str, names)) not in complete:
            raise ExportInvalid("export_columns_changed")
        for number, line in enumerate(file, 1):
            values = _json(line)
            if isinstance(values, dict) and "sha256" in values:
                return
            yield _row(number, names, values, columns[0], numbers)


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _row(
    number: int, names: list[str], values: Any, key_name: str, numbers: Sequence[str]
) -> Row:  # fmt: skip
    if not isinstance(values, list) or len(values) != len(names):
        return Row(number, "", {}, ("*",))
    given = dict(zip(names, values, strict=True))
    invalid = [name for name, value in given.items() if not _is_valid(value, name in numbers)]
    key = given[key_name]
    is_key = isinstance(key, str) and 0 < len(key) <= LONGEST_KEY and _is_text(key)
    if not is_key:
        return Row(number, "", {}, (key_name,))
    if invalid:
        return Row(number, key, {}, tuple(sorted(invalid)))
    reference = str(given.pop(REFERENCE, ""))
    return Row(number, key, {name: str(value) for name, value in given.items()}, (), reference)


def _is_valid(value: object, is_number: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    if not _is_text(str(value)):
        return False
    if not is_number:
        return True
    try:
        return Decimal(str(value)).is_finite()
    except InvalidOperation:
        return False


def _is_text(value: str) -> bool:
    """Return whether it can be stored: it has no NUL, and no half of a surrogate pair."""
    try:
        return b"\x00" not in value.encode()
    except UnicodeEncodeError:
        return False
