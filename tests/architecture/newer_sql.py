"""SQL that needs a newer server than PostgreSQL 14, the oldest that is supported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_STATEMENT = re.compile(
    r"\b(SELECT|UPDATE|DELETE FROM|INSERT INTO|MERGE INTO|PERFORM|CREATE|ALTER|SET LOCAL)\s"
)
_NOT_CODE = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
NEWER = {
    "number with a base (16)": re.compile(r"(?<![\w'\\])0[xob][0-9a-f]", re.IGNORECASE),
    "number with underscores (16)": re.compile(r"(?<![\w'\"])\d+_\d"),
    "NULLS NOT DISTINCT (15)": re.compile(r"\bNULLS\s+NOT\s+DISTINCT\b"),
    "MERGE (15)": re.compile(r"\bMERGE\s+INTO\b"),
    "view with the rights of its reader (15)": re.compile(r"\bsecurity_invoker\b", re.IGNORECASE),
    "JSON syntax (16, 17)": re.compile(
        r"\bIS\s+JSON\b"
        r"|\bJSON(?:_TABLE|_EXISTS|_VALUE|_QUERY|_ARRAY|_OBJECT|_SCALAR|_SERIALIZE|)\s*\("
        r"|\bJSON_(?:ARRAY|OBJECT)AGG\s*\("
    ),
    "OLD or NEW in RETURNING (18)": re.compile(
        r"\bRETURNING\b[^;]*?\b(?:old|new)\.", re.IGNORECASE
    ),
    "function of a newer server": re.compile(
        r"\b(?:regexp_(?:count|like|instr|substr)|any_value|random_normal|array_(?:sample|shuffle"
        r"|sort|reverse)|pg_input_is_valid|pg_stat_io|uuidv[47]|uuid_extract_\w+|date_(?:add"
        r"|subtract)|to_(?:bin|oct)|erfc?|crc32c?|casefold|system_user|jsonb_path_\w+_tz"
        r"|transaction_timeout)\b\s*[(=\s]",
        re.IGNORECASE,
    ),
}
_DERIVED = re.compile(r"\b(?:FROM|JOIN|LATERAL|USING)\s+\((?=\s*(?:SELECT|VALUES|WITH|\())")
_ALIAS = re.compile(r"\s*(?:AS\s+)?(?!ON\b|WHERE\b|GROUP\b|ORDER\b|LIMIT\b|UNION\b)[a-z_\"x]")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The module's statements, and parts of statements, with their lines."""
    tree = ast.parse(path.read_text())
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if _STATEMENT.search(text):
            yield node.lineno, _NOT_CODE.sub("''", text)


def needs(text: str) -> Iterator[str]:
    """What in the statement an older server does not understand."""
    for what, pattern in NEWER.items():
        if found := pattern.search(text):
            yield f"{what}: {found[0]}"
    for found in _DERIVED.finditer(text):
        end = _closing(text, found.end())
        if end and not _ALIAS.match(text[end:]):
            yield f"subquery in FROM without a name (16): {found[0]} … ){text[end : end + 20]}"


def _closing(text: str, start: int) -> int | None:
    """The place behind the parenthesis that closes the one before ``start``, if it is here."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return None


def newer_sql(root: Path, *packages: str) -> list[str]:
    """Every place below the root whose SQL does not run on PostgreSQL 14."""
    return [
        f"{path}:{line}: {what}"
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
        for line, text in texts(path)
        for what in needs(text)
    ]
