"""Parts of Office documents: how they refer to each other, and the pictures among them."""

from __future__ import annotations

import posixpath
import zipfile
from typing import Any

from lxml import etree

from fileproc.parsers.ocr import Reader
from fileproc.parsers.text import Bomb, Damaged, Text, Unsupported

SAFE: dict[str, Any] = {
    "resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": False,
}  # fmt: skip
"""Options of every XML parser."""
BLIP = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_RELATIONSHIP = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
PICTURE_BYTES = 30 * 1024**2


def relations(archive: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """Return the kind and the path of each part that a part refers to, by its id."""
    folder, name = posixpath.split(part)
    found: dict[str, tuple[str, str]] = {}
    try:
        opened = archive.open(f"{folder}/_rels/{name}.rels")
    except KeyError:
        return found
    with opened:
        for _, node in etree.iterparse(opened, tag=_RELATIONSHIP, **SAFE):
            if node.get("TargetMode") != "External":
                target = node.get("Target", "")
                path = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
                found[node.get("Id", "")] = (node.get("Type", "").rpartition("/")[2], path)
            node.clear()
    return found


class Pictures:
    """The pictures of a document; the text of each is returned once."""

    def __init__(self, archive: zipfile.ZipFile, text: Text, reader: Reader | None) -> None:
        self._archive, self._text, self._reader = archive, text, reader
        self._seen: set[str] = set()

    def add(self, path: str) -> None:
        """Add the text of a picture; count it where it cannot be read."""
        if path in self._seen:
            return
        self._seen.add(path)
        if self._reader is None:
            self._text.unread += 1
            return
        from fileproc.parsers import images

        try:
            if self._archive.getinfo(path).file_size > PICTURE_BYTES:
                raise Bomb
            with self._archive.open(path) as file, images.opened(file) as image:
                words = self._reader.text(image)
        except (Bomb, Damaged, Unsupported, KeyError):
            self._text.unread += 1
        else:
            self._text.add(f"{words}\n\n" if words else "")
