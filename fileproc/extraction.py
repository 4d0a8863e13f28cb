"""Reading a stored file in a sandbox."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jobs
from fileproc import config, ocr, storing
from fileproc.errors import FileError
from fileproc.models import File
from jobs import sandbox

_SECONDS = config.settings().TIMEOUTS["extract"]
LIMITS = sandbox.Limits(memory=512 * 1024**2, cpu=60, wall=min(120, 0.35 * _SECONDS))
WITH_OCR = sandbox.Limits(
    memory=1024**3, cpu=180, wall=min(240, 0.55 * _SECONDS), readable=ocr.FOLDERS
)
"""For documents with pictures, whose text is recognised in a second pass."""
PIECE = 1024**2
_CODES = {
    "Encrypted": "ENCRYPTED", "Unsupported": "UNSUPPORTED_TYPE", "Bomb": "BOMB",
    "Damaged": "DAMAGED", "TooLarge": "LIMIT_EXCEEDED", "Empty": "NO_TEXT",
}  # fmt: skip
_STATUSES = {
    "oom": "BOMB", "cpu_limit": "TIMEOUT", "timeout": "TIMEOUT", "output_limit": "LIMIT_EXCEEDED",
    "crashed": "CRASHED", "stopped": "CRASHED",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Copy:
    """A private copy of a blob, with its checksums."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Found:
    """The text of a document."""

    type: str
    text: str
    pages: list[int]
    headings: list[list[Any]]
    is_table: bool
    warnings: list[str]
    isolation: str
    unread: int = 0
    """Pictures and scanned pages whose text was not recognised."""


@contextmanager
def copy(file: File) -> Iterator[Copy]:
    """Copy the blob that was confirmed; raise FileError if it is another one by now.

    Raises Unavailable or CircuitOpen while the store cannot be used.
    """
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with tempfile.NamedTemporaryFile(prefix="fileproc-") as target:
        storing.breaker.call(storing.fetch, file, target.file)
        target.seek(0)
        while piece := target.read(PIECE):
            sha256.update(piece)
            md5.update(piece)
        if target.tell() != file.size:
            raise FileError("CONTENT_CHANGED")
        if file.md5 and md5.hexdigest() != file.md5:
            raise FileError("HASH_MISMATCH")
        if file.sha256 and sha256.hexdigest() != file.sha256:
            raise FileError("HASH_MISMATCH")
        yield Copy(target.name, file.size, sha256.hexdigest())


def read(ctx: jobs.Context, path: str, name: str, recognition: Mapping[str, str]) -> Found:
    """Read a document; raise FileError, or Stopped when the attempt has to stop.

    ``recognition`` has the arguments of ``ocr``; where it is empty, pictures are left unread.
    """
    found = _parsed(ctx, path, name, LIMITS, {})
    if found.unread and recognition:
        found = _parsed(ctx, path, name, WITH_OCR, recognition)
    if not found.text.strip():
        raise FileError("NO_TEXT")
    if found.unread:
        found.warnings.append(f"pictures or scanned pages that were not read: {found.unread}")
    return found


def _parsed(
    ctx: jobs.Context, path: str, name: str, limits: sandbox.Limits, recognition: Mapping[str, str]
) -> Found:
    options = {
        "name": name, "pages": config.PAGES_LIMIT, "limit": config.TEXT_LIMIT,
        "ocr": dict(recognition),
    }  # fmt: skip
    outcome = sandbox.run(
        "fileproc.parsers.read", path, limits, options=options, on_stop=ctx.on_stop
    )
    if outcome.status == "stopped":
        ctx.checkpoint()
    if outcome.status != "ok":
        code = _CODES.get(outcome.type, "DAMAGED") if outcome.status == "error" else ""
        raise FileError(code or _STATUSES[outcome.status])
    try:
        return _checked(outcome.value, outcome.isolation)
    except (KeyError, TypeError, ValueError):
        raise FileError("CRASHED") from None  # a file that took the parser over


def _checked(value: Any, isolation: str) -> Found:
    """Return what the parser has returned, of which nothing is trusted."""
    text = value["text"]
    if not isinstance(text, str) or len(text) > config.TEXT_LIMIT:
        raise ValueError("text")
    pages = [_place(place, text) for place in value["pages"][: config.PAGES_LIMIT]]
    headings = [
        [_place(place, text), max(1, min(int(level), 9)), str(title)[:200]]
        for place, level, title in value["headings"]
    ]
    warnings = [str(one)[:200] for one in value["warnings"][:20]]
    kind = str(value["type"])
    if kind not in TYPES or pages != sorted(pages) or headings != sorted(headings):
        raise ValueError("type")
    unread = max(0, int(value["unread"]))
    is_table = value["is_table"] is True
    return Found(kind, text, pages, headings, is_table, warnings, isolation, unread)


def _place(place: Any, text: str) -> int:
    if not isinstance(place, int) or not 0 <= place <= len(text):
        raise ValueError("place")
    return place


TEXTS = ("pdf", "docx", "pptx", "xlsx", "html", "md", "csv", "json", "txt")
PICTURES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif",
    ".webp": "image/webp", ".bmp": "image/bmp",
}  # fmt: skip
"""Names of pictures that are taken, and what they are uploaded as."""
TYPES = (*TEXTS, "png", "jpeg", "gif", "webp", "bmp")
ENDINGS = {
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".csv": "text/csv", ".tsv": "text/csv", ".txt": "text/plain", ".md": "text/markdown",
    ".markdown": "text/markdown", ".html": "text/html", ".htm": "text/html",
    ".json": "application/json", ".js": "text/javascript", ".css": "text/css",
    ".svg": "image/svg+xml",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    **PICTURES,
}  # fmt: skip
"""Names of files that are taken, and what they are uploaded as."""
