"""Plain text, Markdown, CSV and JSON."""

from __future__ import annotations

import re
from typing import BinaryIO

from fileproc.parsers.text import Text, Unsupported

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)
_GUESS = 256 * 1024


def decode(data: bytes) -> str:
    """Return the text of the bytes, whatever their encoding."""
    for mark, encoding in (
        (b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"),
    ):  # fmt: skip
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        import charset_normalizer

        best = charset_normalizer.from_bytes(data[:_GUESS]).best()
        if best is None:
            raise Unsupported from None
        return data.decode(best.encoding, errors="replace")


def read(file: BinaryIO, text: Text, kind: str) -> None:
    found = decode(file.read()).replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")
    text.is_table = kind == "csv"
    if kind == "md":
        _add_markdown(text, found)
    else:
        text.add(found)


def _add_markdown(text: Text, source: str) -> None:
    """Add the source with its headings, but for what only looks so in code."""
    fences = [found.start() for found in _FENCE.finditer(source)]
    place = fence = 0
    for found in _HEADING.finditer(source):
        while fence < len(fences) and fences[fence] < found.start():
            fence += 1
        if fence % 2:
            continue
        text.add(source[place : found.start()])
        text.heading(len(found[1]), found[2])
        place = found.start()
    text.add(source[place:])
