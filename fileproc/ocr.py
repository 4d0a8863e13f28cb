"""Whether the text of pictures can be recognised here, and in which languages."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FOLDERS = (
    f"{sys.prefix}/share/tessdata", "/usr/share/tesseract-ocr/5/tessdata", "/usr/share/tessdata",
)  # fmt: skip
"""Where language data is looked for: that of wheels, and that of the system's packages."""
LANGUAGES = {
    "ar": "ara", "ca": "cat", "da": "dan", "de": "deu", "el": "ell", "en": "eng", "es": "spa",
    "eu": "eus", "fi": "fin", "fr": "fra", "ga": "gle", "hi": "hin", "hu": "hun", "hy": "hye",
    "id": "ind", "it": "ita", "lt": "lit", "ne": "nep", "nl": "nld", "no": "nor", "pt": "por",
    "ro": "ron", "ru": "rus", "sr": "srp", "sv": "swe", "ta": "tam", "tr": "tur", "yi": "yid",
}  # fmt: skip
"""What Tesseract calls the languages of documents."""


@cache
def is_installed() -> bool:
    """Return whether Tesseract is there, with data for English at least."""
    return all(find_spec(name) for name in ("tesserocr", "PIL")) and _folder("eng") != ""


@cache
def arguments(language: str) -> dict[str, str]:
    """Return the arguments of the parsers' ``Reader``; English where a language has no data."""
    wanted = LANGUAGES.get(language, "eng")
    if folder := _folder(wanted):
        return {"data": folder, "language": wanted}
    return {"data": _folder("eng"), "language": "eng"}


def _folder(language: str) -> str:
    found = (one for one in FOLDERS if Path(one, f"{language}.traineddata").is_file())
    return next(found, "")
