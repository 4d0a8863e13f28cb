"""Everything that people read is in the catalogues, translated, and compiled."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils.translation.template import templatize

from tests.admin.screens import screens
from tests.browser.filling import fill, furnished

JOBS = Path(__file__).parents[2] / "jobs"
LANGUAGES = ["en", "it", "pt_BR"]
MARKS = {
    "gettext": 1, "gettext_lazy": 1, "gettext_noop": 1, "ngettext": 2, "ngettext_lazy": 2,
    "say": 1, "say_many": 2,
}  # fmt: skip
"""Functions that translate, and how many of their arguments are texts."""
SOURCES = ("django.utils.translation", "jobs.operate.phrases")
Text = tuple[str, ...]
_LITERAL = r"""u?(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
_CALL = re.compile(rf"\b(?:n?gettext|_)\(({_LITERAL})(?:, ?({_LITERAL}))?")
PLACE = re.compile(r"%\(\w+\)[sd]|%%|\{\w*\}")


def in_code(source: str) -> Iterator[Text]:
    """Texts that a module has translated."""
    tree = ast.parse(source)
    marks = {
        name.asname or name.name: MARKS[name.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in SOURCES
        for name in node.names
        if name.name in MARKS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            texts = node.args[: marks.get(node.func.id, 0)]
            found = [t.value for t in texts if isinstance(t, ast.Constant)]
            if found and len(found) == len(texts):
                yield tuple(str(one) for one in found)


def in_template(source: str) -> Iterator[Text]:
    """Texts that a template has translated."""
    for first, second in _CALL.findall(templatize(source)):
        yield tuple(str(ast.literal_eval(one)) for one in (first, second) if one)


def used() -> set[Text]:
    """Every text of the platform that is to be translated."""
    code = (p for p in JOBS.rglob("*.py") if "migrations" not in p.parts)
    found = {text for path in code for text in in_code(path.read_text())}
    pages = JOBS.rglob("*.html")
    return found | {text for path in pages for text in in_template(path.read_text())}


@cache
def catalogue(language: str) -> tuple[dict[Text, tuple[str, ...]], list[str]]:
    """What the platform's readable catalogue says."""
    return read(path_of(language, "po"))


def read(path: Path) -> tuple[dict[Text, tuple[str, ...]], list[str]]:
    """What a readable catalogue says, without its header, and the flags in it."""
    found: dict[Text, tuple[str, ...]] = {}
    flags: list[str] = []
    for block in path.read_text().split("\n\n"):
        parts: dict[str, str] = {}
        name = ""
        for line in block.strip().splitlines():
            if line.startswith("#"):
                flags.append(line)
                continue
            begun = re.match(r"(msg\w+(?:\[\d\])?) ", line)
            if begun:
                name = begun[1]
            parts[name] = parts.get(name, "") + ast.literal_eval(line[line.index('"') :])
        text = tuple(parts[key] for key in ("msgid", "msgid_plural") if key in parts)
        found[text] = tuple(v for key, v in parts.items() if key.startswith("msgstr"))
    found.pop(("",))
    return found, flags


def path_of(language: str, suffix: str) -> Path:
    return JOBS / "locale" / language / "LC_MESSAGES" / f"django.{suffix}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_none_is_left_over(language: str) -> None:
    found, flags = catalogue(language)
    # A text that is used alone as well is the singular of its plural.
    plurals = {text[0] for text in found if len(text) == 2}
    wanted = {text for text in used() if len(text) == 2 or text[0] not in plurals}
    assert wanted - set(found) == set()
    assert set(found) - wanted == set()
    assert [text for text, values in found.items() if not all(values)] == []
    assert [line for line in flags if "fuzzy" in line] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_keep_the_places_of_values(language: str) -> None:
    for text, values in catalogue(language)[0].items():
        places = sorted(PLACE.findall(text[-1]))
        for value in values[-1:] if len(text) == 2 else values:
            assert sorted(PLACE.findall(value)) == places, text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalogue_says_the_same(language: str) -> None:
    with path_of(language, "mo").open("rb") as file:
        compiled: dict[Any, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    compiled.pop("")
    written: dict[Any, str] = {}
    for text, values in catalogue(language)[0].items():
        if len(text) == 1:
            written[text[0]] = values[0]
        else:
            written |= {(text[0], n): value for n, value in enumerate(values)}
    assert compiled == written


def test_texts_are_found_in_code_and_templates() -> None:
    code = "from django.utils.translation import gettext as _, ngettext\n_('a' 'b')\nngettext('c', 'd', 2)\nx('e')"  # noqa: E501
    assert set(in_code(code)) == {("ab",), ("c", "d")}
    page = (
        "{% load i18n %}{% translate 'a' %}{{ x|default:_('b') }}"
        "{% blocktranslate count n=n %}{{ n }} c{% plural %}{{ n }} d{% endblocktranslate %}"
    )
    assert set(in_template(page)) == {("a",), ("b",), ("%(n)s c", "%(n)s d")}


@pytest.mark.django_db
@pytest.mark.parametrize(("language", "title"), [("it", "Panoramica"), ("pt-br", "Visão geral")])
def test_every_screen_speaks_the_language_of_its_reader(
    admin_client: Client, language: str, title: str
) -> None:
    with furnished():
        ids = fill()
        for name, path in screens(ids).items():
            answer = admin_client.get(f"/admin/jobs/{path}", headers={"accept-language": language})
            assert answer.status_code == 200, name
            if name == "overview":
                assert f"<h1>{title}</h1>" in answer.content.decode()
