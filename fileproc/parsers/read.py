"""The entry point: read a document of any supported type."""

from __future__ import annotations

from typing import Any, BinaryIO

from fileproc.parsers.ocr import Reader
from fileproc.parsers.sniffing import PICTURES, sniff
from fileproc.parsers.text import Text


def main(
    file: BinaryIO, name: str, pages: int, limit: int, ocr: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return the text of a document, with its pages and headings.

    ``ocr`` has the arguments of the ``Reader`` that recognises the text of pictures.
    """
    kind, text = sniff(file, name), Text(limit)
    reader = Reader(**ocr) if ocr else None
    if kind == "pdf":
        from fileproc.parsers import pdf

        pdf.read(file, text, pages, reader)
    elif kind == "docx":
        from fileproc.parsers import docx

        docx.read(file, text, reader)
    elif kind == "pptx":
        from fileproc.parsers import pptx

        pptx.read(file, text, pages, reader)
    elif kind == "xlsx":
        from fileproc.parsers import xlsx

        xlsx.read(file, text)
    elif kind == "html":
        from fileproc.parsers import html

        html.read(file, text)
    elif kind in PICTURES:
        from fileproc.parsers import images

        images.read(file, text, name, reader)
    else:
        from fileproc.parsers import plain

        plain.read(file, text, kind)
    return text.as_data(kind)
