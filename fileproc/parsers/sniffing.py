"""Which type a file is, by its content; its name says nothing."""

from __future__ import annotations

import json
import os
import re
import zipfile
from typing import BinaryIO

from fileproc.parsers.archives import checked
from fileproc.parsers.text import Damaged, Encrypted, Unsupported

_MEMBERS = {
    "word/document.xml": "docx", "xl/workbook.xml": "xlsx", "ppt/presentation.xml": "pptx",
}  # fmt: skip
PICTURES = {
    "png": re.compile(rb"\x89PNG\r\n\x1a\n"), "jpeg": re.compile(rb"\xff\xd8\xff"),
    "gif": re.compile(rb"GIF8[79]a"), "webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "bmp": re.compile(rb"BM.{4}\0{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0{3}", re.DOTALL),
}  # fmt: skip
_BINARY = (
    b"\x7fELF", b"MZ", b"\x89PNG", b"II*\x00", b"MM\x00*", b"RIFF", b"\x1f\x8b", b"BZh",
    b"7z\xbc\xaf", b"Rar!", b"\x00\x00\x01\x00",
)  # fmt: skip
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HTML = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b",
                   re.IGNORECASE | re.DOTALL)  # fmt: skip
_JSON_LIMIT = 64 * 1024**2


def sniff(file: BinaryIO, name: str) -> str:
    """Return the type of the content; among plain texts the ending of the name decides."""
    head = file.read(4096)
    file.seek(0)
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith(b"PK"):
        return _in_zip(file)
    if head.startswith(_OLE):
        return _in_ole(file)
    for kind, marks in PICTURES.items():
        if marks.match(head):
            return kind
    if head.startswith(_BINARY):
        raise Unsupported
    if b"\x00" in head and not head.startswith(_MARKS):
        raise Unsupported
    if _HTML.match(head):
        return "html"
    ending = os.path.splitext(name.lower())[1]
    if ending in (".html", ".htm"):
        return "html"
    if ending in (".md", ".markdown"):
        return "md"
    if ending in (".csv", ".tsv"):
        return "csv"
    return "json" if ending == ".json" and _is_json(file) else "txt"


def _in_zip(file: BinaryIO) -> str:
    try:
        with checked(file) as archive:
            names = set(archive.namelist())
    except zipfile.BadZipFile:
        raise Damaged from None
    finally:
        file.seek(0)
    for member, kind in _MEMBERS.items():
        if member in names:
            return kind
    raise Unsupported


def _in_ole(file: BinaryIO) -> str:
    """An Office document with a password is a package of the old format."""
    start = file.read(1024 * 1024)
    file.seek(0)
    if "EncryptedPackage".encode("utf-16-le") in start:
        raise Encrypted
    raise Unsupported


def _is_json(file: BinaryIO) -> bool:
    try:
        json.loads(file.read(_JSON_LIMIT))
    except (ValueError, RecursionError):
        raise Damaged from None
    finally:
        file.seek(0)
    return True
