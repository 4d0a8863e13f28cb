"""Reading the documents as data: which names of the library they tell people to use."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.architecture.sources import PROJECT_MODULES, PUBLIC_MODULES

BELOW = frozenset({"jobs.api.uploads", "jobs.blobs.urls"})
"""Modules below a public one that have to be imported, or included in URLs, by their own name."""
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^|\n)\n((?: {4,}.*\n|\n)+)")
_INLINE = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
_DOTTED = re.compile(r"(?<![\w./<:@-])jobs(?:\.[A-Za-z_]\w*)+")
_IMPORT = re.compile(r"\bfrom (jobs(?:\.\w+)*) import (\w+)|\bimport (jobs(?:\.\w+)+)")


@dataclass(frozen=True)
class Name:
    """A dotted name of the library, and whether only Python could mean it."""

    path: str
    is_code: bool


def names(text: str) -> set[Name]:
    """Every name of the library in the fenced, indented and inline code of a document."""
    found, rest = set[Name](), text
    for block in _FENCE.finditer(text):
        rest = rest.replace(block[0], "")
        found |= set(_in_code(textwrap.dedent(block[3])))
    for indented in _INDENTED.finditer(rest):
        found |= set(_in_code(textwrap.dedent(indented[1])))
    for inline in _INLINE.finditer(rest):
        found |= set(_in_words(inline[1]))
    return found


def _in_code(code: str) -> Iterator[Name]:
    try:
        tree = ast.parse(code)
    except SyntaxError:
        yield from _in_words(code)
        return
    aliases = {"jobs": "jobs"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jobs":
            for one in node.names:
                aliases[one.asname or one.name] = f"{node.module}.{one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.asname and one.name.startswith("jobs."):
                    aliases[one.asname] = one.name
    yield from (Name(path, True) for path in aliases.values() if path != "jobs")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            head, _, rest = ast.unparse(node).partition(".")
            if head in aliases and re.fullmatch(r"[\w.]+", rest):
                yield Name(f"{aliases[head]}.{rest}", True)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _in_words(node.value)


def _in_words(words: str) -> Iterator[Name]:
    for found in _IMPORT.finditer(words):
        yield Name(f"{found[1]}.{found[2]}" if found[1] else found[3], True)
    for dotted in _DOTTED.finditer(words):
        yield Name(dotted[0], words[dotted.end() :].startswith("("))


def private(text: str, root: Path, public_names: frozenset[str]) -> list[str]:
    """The names in a document that the library does not offer to its users.

    A name that is no Python, such as the topic ``jobs.job.failed``, is left alone.
    """
    return sorted(
        name.path
        for name in names(text)
        if not (_is_public(name.path, public_names) or _is_word(name, root))
    )


def _is_public(path: str, public_names: frozenset[str]) -> bool:
    first = path.split(".")[1]
    if first in public_names:
        return True
    if first not in (*PUBLIC_MODULES, *PROJECT_MODULES):
        return False
    found: object = import_module(f"jobs.{first}")
    for number, part in enumerate(path.split(".")[2:], 3):
        if not isinstance(found, ModuleType):
            return True  # what a class or a function has is not told by a list
        below = ".".join(path.split(".")[:number])
        if below in BELOW:
            found = import_module(below)
        elif part in getattr(found, "__all__", [part]) and hasattr(found, part):
            found = getattr(found, part)
        else:
            return False
    return True


def _is_word(name: Name, root: Path) -> bool:
    """Return whether this is a topic, a logger, a kind, a permission or a check."""
    first = root / "jobs" / name.path.split(".")[1]
    is_module = first.is_dir() or first.with_suffix(".py").is_file()
    is_check = re.search(r"\.[EW]\d{3}\Z", name.path)
    return bool(is_check) or not (name.is_code or is_module)
