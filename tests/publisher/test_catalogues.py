"""Everything of the publisher that people read is translated and compiled."""

from __future__ import annotations

import gettext
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from publisher.models import Account
from tests.admin.test_catalogues import LANGUAGES, PLACE, Text, in_code, read

ROOT = Path(__file__).parents[2] / "publisher"


def path_of(language: str, suffix: str) -> Path:
    return ROOT / "locale" / language / "LC_MESSAGES" / f"django.{suffix}"


def used() -> set[Text]:
    code = (path for path in ROOT.rglob("*.py") if "migrations" not in path.parts)
    return {text for path in code for text in in_code(path.read_text())}


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
    assert compiled == {text: value for [text], [value] in read(path_of(language, "po"))[0].items()}


@pytest.mark.django_db
@pytest.mark.parametrize(("language", "word"), [("it", "Fuso orario"), ("pt-br", "Fuso horário")])
def test_pages_speak_the_language_of_their_reader(
    admin_client: Client, accounts: dict[str, Account], language: str, word: str
) -> None:
    path = f"/admin/publisher/brand/{accounts['meta_facebook'].brand_id}/change/"
    answer = admin_client.get(path, headers={"accept-language": language})
    assert word in answer.content.decode()
