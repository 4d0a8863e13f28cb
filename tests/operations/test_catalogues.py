"""Everything of the app that people read is translated and compiled."""

from __future__ import annotations

import gettext
from pathlib import Path

import pytest

from tests.admin.test_catalogues import LANGUAGES, Text, in_code, read

ROOT = Path(__file__).parents[2] / "operations"


def used() -> set[Text]:
    code = (p for p in ROOT.rglob("*.py") if "migrations" not in p.parts)
    return {text for path in code for text in in_code(path.read_text())}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_and_compiled(language: str) -> None:
    folder = ROOT / "locale" / language / "LC_MESSAGES"
    found, flags = read(folder / "django.po")
    assert set(found) == used()
    assert [text for text, values in found.items() if not all(values)] == []
    assert [line for line in flags if "fuzzy" in line] == []
    with (folder / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert all(compiled.gettext(text[0]) == values[0] for text, values in found.items())
