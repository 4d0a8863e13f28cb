"""PowerPoint: slides in their order, each a page under its title, with its notes."""

from __future__ import annotations

import zipfile
from typing import BinaryIO

from lxml import etree

from fileproc.parsers.archives import checked
from fileproc.parsers.ocr import Reader
from fileproc.parsers.parts import BLIP, RELATION, SAFE, Pictures, relations
from fileproc.parsers.text import Damaged, Text, TooLarge

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_BOOK = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_DECORATION = ("dt", "ftr", "hdr", "sldImg", "sldNum")


def read(file: BinaryIO, text: Text, pages: int, reader: Reader | None) -> None:
    try:
        with checked(file) as archive:
            slides = _slides(archive)
            if len(slides) > pages:
                raise TooLarge
            pictures = Pictures(archive, text, reader)
            for slide in slides:
                text.page()
                linked = relations(archive, slide)
                _read_slide(archive, slide, linked, text, pictures)
                for kind, path in linked.values():
                    if kind == "notesSlide":
                        _read_slide(archive, path, {}, text, pictures)
    # zipfile raises NotImplementedError for a compression that it does not know.
    except (etree.XMLSyntaxError, zipfile.BadZipFile, KeyError, NotImplementedError, EOFError):
        raise Damaged from None


def _slides(archive: zipfile.ZipFile) -> list[str]:
    """Return the paths of the slides, as they are shown."""
    linked, found = relations(archive, _BOOK), []
    with archive.open(_BOOK) as book:
        for _, node in etree.iterparse(book, tag=_P + "sldId", **SAFE):
            kind, path = linked[node.get(RELATION + "id", "")]
            if kind == "slide":
                found.append(path)
    return found


def _read_slide(
    archive: zipfile.ZipFile, part: str, linked: dict[str, tuple[str, str]], text: Text,
    pictures: Pictures,
) -> None:  # fmt: skip
    line: list[str] = []
    title: list[str] = []
    role = ""
    with archive.open(part) as slide:
        for _, node in etree.iterparse(slide, events=("end",), **SAFE):
            if node.tag == _A + "t":
                line.append(node.text or "")
            elif node.tag == _A + "br":
                line.append("\n")
            elif node.tag == _P + "ph":
                role = node.get("type", "body")
            elif node.tag == _A + "p":
                words = "".join(line).strip()
                if words and role in _TITLES:
                    title.append(words)
                elif words and role not in _DECORATION:
                    text.add(words + "\n")
                line = []
            elif node.tag == _A + "tr":
                text.add("\n")
            elif node.tag == BLIP:
                pictures.add(linked.get(node.get(RELATION + "embed", ""), ("", ""))[1])
            elif node.tag in (_P + "sp", _P + "pic", _P + "graphicFrame"):
                if title:
                    text.heading(1, " ".join(title))
                    text.add("\n".join(title) + "\n")
                title, role = [], ""
                node.clear()
    text.add("\n")
