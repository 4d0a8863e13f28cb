"""Word documents: paragraphs and tables in their order, headings by their styles."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO

from lxml import etree

from fileproc.parsers.archives import checked
from fileproc.parsers.ocr import Reader
from fileproc.parsers.parts import BLIP, RELATION, SAFE, Pictures, relations
from fileproc.parsers.text import Damaged, Text

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LEVEL = re.compile(r"heading\s*(\d)", re.IGNORECASE)
_BODY = "word/document.xml"


def read(file: BinaryIO, text: Text, reader: Reader | None) -> None:
    try:
        with checked(file) as archive:
            levels = _levels(archive)
            places = {key: path for key, (_, path) in relations(archive, _BODY).items()}
            pictures = Pictures(archive, text, reader)
            with archive.open(_BODY) as body:
                for embedded in _read_body(body, text, levels):
                    pictures.add(places.get(embedded, ""))
    # zipfile raises NotImplementedError for a compression that it does not know.
    except (etree.XMLSyntaxError, zipfile.BadZipFile, KeyError, NotImplementedError, EOFError):
        raise Damaged from None


def _levels(archive: zipfile.ZipFile) -> dict[str, int]:
    """Return the level of each style that is a heading, by its id."""
    found: dict[str, int] = {}
    try:
        styles = archive.open("word/styles.xml")
    except KeyError:
        return found
    with styles:
        for _, style in etree.iterparse(styles, tag=_W + "style", **SAFE):
            name = style.find(_W + "name")
            words = _LEVEL.match(name.get(_W + "val", "")) if name is not None else None
            if words:
                found[style.get(_W + "styleId", "")] = int(words[1])
    return found


def _read_body(body: Any, text: Text, levels: dict[str, int]) -> Iterator[str]:
    """Add the paragraphs; yield the id of each picture after the paragraph that has it."""
    line: list[str] = []
    found: list[str] = []
    level = 0
    for _, node in etree.iterparse(body, events=("end",), **SAFE):
        if node.tag == _W + "t":
            line.append(node.text or "")
        elif node.tag == _W + "tab":
            line.append("\t")
        elif node.tag in (_W + "br", _W + "cr"):
            line.append("\n")
        elif node.tag == _W + "pStyle":
            level = levels.get(node.get(_W + "val", ""), 0)
        elif node.tag == BLIP:
            found.append(node.get(RELATION + "embed", ""))
        elif node.tag == _W + "p":
            _end_paragraph(text, "".join(line), level)
            yield from found
            line, found, level = [], [], 0
            node.clear()
            while node.getprevious() is not None:
                del node.getparent()[0]
        elif node.tag == _W + "tr":
            text.add("\n")


def _end_paragraph(text: Text, words: str, level: int) -> None:
    if level:
        text.heading(level, words)
    text.add(words + "\n\n" if words.strip() else "")
