"""A server of media: files of any size, whose bytes follow from where they stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from config.standins.publisher.server import Answer, Request, Standin

_BLOCK = bytes(range(251))
_RANGE = re.compile(r"bytes=(\d+)-(\d+)\Z")


def part(start: int, length: int) -> bytes:
    """Return a part of the file."""
    shift = start % len(_BLOCK)
    return (_BLOCK * (length // len(_BLOCK) + 2))[shift : shift + length]


def answer(standin: Standin, request: Request) -> Answer:
    """Answer with a part of ``/media/<size>.mp4``."""
    size = int(request.path.partition(".")[0])
    found = _RANGE.match(request.headers.get("Range", ""))
    if found is None:
        return 400, {}
    first, last = int(found[1]), min(int(found[2]), size - 1)
    where = {"Content-Range": f"bytes {first}-{last}/{size}", "Content-Type": "video/mp4"}
    return 206, part(first, last - first + 1), where
