"""The entry point: read a document of any supported type."""

from __future__ import annotations

from typing import Any, BinaryIO

from fileproc.parsers.sniffing import sniff
from fileproc.parsers.text import Text


def main(file: BinaryIO, name: str, pages: int, limit: int) -> dict[str, Any]:
    """Return the text of a document, with its pages and headings."""
    kind, text = sniff(file, name), Text(limit)
    if kind == "pdf":
        from fileproc.parsers import pdf

        pdf.read(file, text, pages)
    elif kind == "docx":
        from fileproc.parsers import docx

        docx.read(file, text)
    elif kind == "xlsx":
        from fileproc.parsers import xlsx

        xlsx.read(file, text)
    elif kind == "html":
        from fileproc.parsers import html

        html.read(file, text)
    else:
        from fileproc.parsers import plain

        plain.read(file, text, kind)
    return text.as_data(kind)
