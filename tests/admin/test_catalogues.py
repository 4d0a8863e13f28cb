"""Everything that people read is in the catalogues, translated, and compiled."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from django.test import Client

from tests.admin.screens import screens
from tests.browser.filling import fill, furnished
from tests.catalogues import APPS, LANGUAGES, PLACE, compiled, in_code, in_template, used, written

catalogues = [(app, language) for app in APPS for language in LANGUAGES]


@pytest.mark.parametrize(("app", "language"), catalogues)
def test_every_text_is_translated_and_none_is_left_over(app: str, language: str) -> None:
    found, flags = written(app, language)
    # A text that is used alone as well is the singular of its plural.
    plurals = {text[0] for text in found if len(text) == 2}
    wanted = {text for text in used(app) if len(text) == 2 or text[0] not in plurals}
    assert wanted - set(found) == set()
    assert set(found) - wanted == set()
    assert [text for text, values in found.items() if not all(values)] == []
    assert [line for line in flags if "fuzzy" in line] == []


@pytest.mark.parametrize(("app", "language"), catalogues)
def test_translations_keep_the_places_of_values(app: str, language: str) -> None:
    for text, values in written(app, language)[0].items():
        places = sorted(PLACE.findall(text[-1]))
        for value in values[-1:] if len(text) == 2 else values:
            assert sorted(PLACE.findall(value)) == places, text


@pytest.mark.parametrize(("app", "language"), catalogues)
def test_the_compiled_catalogue_says_the_same(app: str, language: str) -> None:
    said: dict[Any, str] = {}
    for text, values in written(app, language)[0].items():
        if len(text) == 1:
            said[text[0]] = values[0]
        else:
            said |= {(text[0], n): value for n, value in enumerate(values)}
    assert compiled(app, language) == said


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_has_one_translation(language: str) -> None:
    """Django puts all catalogues into one: an app would speak the words of another one."""
    found: defaultdict[str, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for app in APPS:
        for text, values in written(app, language)[0].items():
            found[text[0]][app] = values[:1]
    assert {text: by for text, by in found.items() if len(set(by.values())) > 1} == {}


def test_texts_are_found_in_code_and_templates() -> None:
    code = (
        "from django.utils.translation import gettext as _, ngettext, pgettext\n"
        "_('a' 'b')\nngettext('c', 'd', 2)\npgettext('e', 'f')\nx('g')"
    )
    assert set(in_code(code)) == {("ab",), ("c", "d"), ("e\x04f",)}
    page = (
        "{% load i18n %}{% translate 'a' %}{{ x|default:_('b') }}{% translate 'c' context 'd' %}"
        "{% blocktranslate count n=n %}{{ n }} c{% plural %}{{ n }} d{% endblocktranslate %}"
    )
    texts = {("a",), ("b",), ("d\x04c",), ("%(n)s c", "%(n)s d")}
    assert set(in_template(page)) == texts


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
