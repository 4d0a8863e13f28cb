"""Everything of the coach that people read is translated and compiled, like the platform's."""

from __future__ import annotations

import gettext
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.test_catalogues import LANGUAGES, PLACE, Text, in_code, in_template, read

ROOT = Path(__file__).parents[2] / "trading"


def path_of(language: str, suffix: str) -> Path:
    return ROOT / "locale" / language / "LC_MESSAGES" / f"django.{suffix}"


def used() -> set[Text]:
    code = (p for p in ROOT.rglob("*.py") if "migrations" not in p.parts)
    found = {text for path in code for text in in_code(path.read_text())}
    return found | {text for p in ROOT.rglob("*.html") for text in in_template(p.read_text())}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_none_is_left_over(language: str) -> None:
    found, flags = read(path_of(language, "po"))
    assert used() - set(found) == set()
    assert set(found) - used() == set()
    assert [text for text, values in found.items() if not all(values)] == []
    assert [line for line in flags if "fuzzy" in line] == []
    for [text], [value] in found.items():
        assert sorted(PLACE.findall(value)) == sorted(PLACE.findall(text)), text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_compiled_catalogue_says_the_same(language: str) -> None:
    with path_of(language, "mo").open("rb") as file:
        compiled: dict[Any, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    compiled.pop("")
    written = {text: value for [text], [value] in read(path_of(language, "po"))[0].items()}
    assert compiled == written


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "words"), [("it", "Nessun conto è ancora"), ("pt-br", "Nenhuma conta está")]
)
def test_pages_speak_the_language_of_their_reader(language: str, words: str) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    spoken = {"accept-language": language}
    answer = client.get("/admin/trading/brokerconnection/", headers=spoken)
    assert words in answer.content.decode()
