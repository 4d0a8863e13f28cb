"""The catalogues of translations: what code and pages have translated, and what is written."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from django.utils.translation.template import templatize

ROOT = Path(__file__).parents[1]
APPS = ("jobs", "emailgw", "fileproc", "operations", "publisher", "trading")
LANGUAGES = ("en", "it", "pt_BR")
PLACE = re.compile(r"%\(\w+\)[sd]|%%|\{\w*\}")

Text = tuple[str, ...]
"""A text, or a singular and its plural; with a context, that stands before it as in a catalogue."""
_MARKS = {
    "gettext": (0, 1), "gettext_lazy": (0, 1), "gettext_noop": (0, 1), "ngettext": (0, 2),
    "ngettext_lazy": (0, 2), "pgettext": (1, 1), "pgettext_lazy": (1, 1), "say": (0, 1),
    "say_many": (0, 2),
}  # fmt: skip
"""Functions that translate: how many of their arguments are contexts, and how many are texts."""
_SOURCES = ("django.utils.translation", "jobs.operate.phrases")
_CONTEXT = "\x04"
_LITERAL = r"""u?(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
_CALL = re.compile(rf"\b(p|n)?(?:gettext|_)\(({_LITERAL})(?:, ?({_LITERAL}))?")


def in_code(source: str) -> Iterator[Text]:
    """Yield the texts that a module has translated."""
    tree = ast.parse(source)
    marks = {
        name.asname or name.name: _MARKS[name.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in _SOURCES
        for name in node.names
        if name.name in _MARKS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            contexts, texts = marks.get(node.func.id, (0, 0))
            wanted = node.args[: contexts + texts]
            found = [str(one.value) for one in wanted if isinstance(one, ast.Constant)]
            if found and len(found) == len(wanted):
                yield (_CONTEXT.join(found),) if contexts else tuple(found)


def in_template(source: str) -> Iterator[Text]:
    """Yield the texts that a template has translated."""
    for kind, *literals in _CALL.findall(templatize(source)):
        found = [str(ast.literal_eval(one)) for one in literals if one]
        yield (_CONTEXT.join(found),) if kind == "p" else tuple(found)


@cache
def used(app: str) -> frozenset[Text]:
    """Return every text of an app that is to be translated."""
    code = (path for path in (ROOT / app).rglob("*.py") if "migrations" not in path.parts)
    found = {text for path in code for text in in_code(path.read_text())}
    pages = (ROOT / app).rglob("*.html")
    return frozenset(found | {text for path in pages for text in in_template(path.read_text())})


@cache
def written(app: str, language: str) -> tuple[dict[Text, tuple[str, ...]], list[str]]:
    """Return what the readable catalogue says, without its header, and the flags in it."""
    found: dict[Text, tuple[str, ...]] = {}
    flags: list[str] = []
    for block in _file(app, language, "po").read_text().split("\n\n"):
        parts: dict[str, str] = {}
        name = ""
        for line in block.strip().splitlines():
            if line.startswith("#"):
                flags.append(line)
                continue
            if begun := re.match(r"(msg\w+(?:\[\d\])?) ", line):
                name = begun[1]
            parts[name] = parts.get(name, "") + ast.literal_eval(line[line.index('"') :])
        texts = [parts[key] for key in ("msgid", "msgid_plural") if key in parts]
        if "msgctxt" in parts:
            texts[0] = parts["msgctxt"] + _CONTEXT + texts[0]
        found[tuple(texts)] = tuple(v for key, v in parts.items() if key.startswith("msgstr"))
    found.pop(("",))
    return found, flags


def compiled(app: str, language: str) -> dict[Any, str]:
    """Return what the compiled catalogue says, without its header."""
    with _file(app, language, "mo").open("rb") as file:
        found: dict[Any, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    found.pop("")
    return found


def _file(app: str, language: str, suffix: str) -> Path:
    return ROOT / app / "locale" / language / "LC_MESSAGES" / f"django.{suffix}"
