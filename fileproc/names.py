"""Names of files and folders: what is wrong with one, and how it is passed to other systems."""

from __future__ import annotations

import re
import unicodedata

from fileproc import config

PATH_LIMIT = 1000
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f"\\/]')


def name_problem(name: str) -> str:
    """Return what is wrong with the name of a file; nothing if it is good."""
    if not name.strip():
        return "must not be empty"
    if "\x00" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
        return "must not contain NUL or lone surrogates"
    if len(name.encode()) > config.NAME_LIMIT:
        return f"must have at most {config.NAME_LIMIT} bytes"
    return ""


def path_problem(path: str) -> str:
    """Return what is wrong with a folder; nothing if it is good."""
    if "\x00" in path or any("\ud800" <= letter <= "\udfff" for letter in path):
        return "must not contain NUL or lone surrogates"
    return f"must have at most {PATH_LIMIT} bytes" if len(path.encode()) > PATH_LIMIT else ""


def download_name(name: str) -> str:
    """Return the name with which a file may be saved anywhere."""
    clean = _UNSAFE.sub("_", unicodedata.normalize("NFC", name))
    clean = "".join("_" if unicodedata.category(c) == "Cf" else c for c in clean)
    return clean[:255] or "document"
