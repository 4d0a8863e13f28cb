"""JSON as PostgreSQL's jsonb accepts it, checked before it can spoil a whole batch of rows."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, NoReturn

from pydantic_core import PydanticSerializationError, to_json

DEPTH_LIMIT = 32
DIGIT_LIMIT = sys.int_info.default_max_str_digits
_ENDLESS = re.compile(rb"(?<![0-9])[0-9]{%d}" % (DIGIT_LIMIT + 1))


class UnstorableValue(ValueError):
    """The value has no JSON that can be stored; ``field`` says where, as a path."""

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(f"{field}: {problem}" if field else problem)


def dumps(value: Any, limit: int) -> str:
    """The value as JSON text of at most ``limit`` bytes, free of NUL, surrogates and NaN."""
    if value is None:
        return "null"
    try:
        raw = to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise _diagnosed(value, str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _diagnosed(value, str(error)) from None
    return checked(raw, limit)


def checked(raw: bytes, limit: int) -> str:
    """The JSON text itself, once it is known that jsonb will take it."""
    if len(raw) > limit:
        raise UnstorableValue("", f"is {len(raw)} bytes of JSON, the limit is {limit}")
    # Cheap look first: the suspicious spellings may also be innocent text.
    suspicious = b"\\u0000" in raw or b"NaN" in raw or b"Infinity" in raw
    endless = len(raw) > DIGIT_LIMIT and _ENDLESS.search(raw) is not None
    if suspicious or endless or raw.count(b"[") + raw.count(b"{") > DEPTH_LIMIT:
        try:
            _inspect(json.loads(raw), "")
        except RecursionError:
            raise UnstorableValue("", "is nested too deeply") from None
        except UnstorableValue:
            raise
        except ValueError:
            raise UnstorableValue(
                "", f"has a number of more than {DIGIT_LIMIT} digits, which Python does not read"
            ) from None
    return raw.decode()


def is_crowded(data: bytes, values: int, containers: int) -> bool:
    """Return whether JSON has more values, or lists and objects, by their punctuation alone.

    Parsing it would take a hundred times its size in memory, and no other thread runs meanwhile.
    """
    if not _has_many(data, values, containers):
        return False
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if unescaped.count(b'"') > 2 * values:
        return True
    # What is outside of strings.
    return _has_many(b" ".join(unescaped.split(b'"')[::2]), values, containers)


def _has_many(data: bytes, values: int, containers: int) -> bool:
    found = data.count(b"[") + data.count(b"{")
    return found > containers or found + data.count(b",") > values


def _diagnosed(value: Any, problem: str) -> UnstorableValue:
    try:
        _inspect(value, "")
    except UnstorableValue as found:
        return found
    except RecursionError:
        return UnstorableValue("", "is nested too deeply")
    return UnstorableValue("", problem)


def _inspect(value: Any, path: str, depth: int = 0) -> None:
    """Raise UnstorableValue at the first part that jsonb refuses."""
    if depth > DEPTH_LIMIT:
        _refuse(path, f"is nested deeper than {DEPTH_LIMIT} levels")
    if isinstance(value, str):
        _inspect_text(value, path)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            _refuse(path, "is not a finite number")
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                _inspect_text(key, f"{path}.{key!r} (key)".lstrip("."))
            _inspect(item, f"{path}.{key}".lstrip("."), depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for index, item in enumerate(value):
            _inspect(item, f"{path}[{index}]", depth + 1)


def _inspect_text(text: str, path: str) -> None:
    if "\0" in text:
        _refuse(path, "contains a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse(path, "contains a lone surrogate")


def _refuse(path: str, problem: str) -> NoReturn:
    raise UnstorableValue(path, problem)


def printable(text: str, limit: int) -> str:
    """The text without NUL and surrogates, cut to ``limit`` characters: safe for a text column."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return text.replace("\0", "␀").encode(errors="replace").decode()
