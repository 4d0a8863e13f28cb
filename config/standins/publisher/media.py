"""Media: files of any size that it serves itself, and those of this machine that it fetches."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

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


def is_fetched(standin: Standin, url: str, types: tuple[str, ...]) -> bool:
    """Fetch what is at an address of this machine; return whether it is of one of these types.

    Addresses elsewhere count as fetched: the stand-in calls nobody on the network.
    """
    if urlsplit(url).hostname != "127.0.0.1" or url.startswith(f"{standin.url}/"):
        return True
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - of this machine
            return answer.headers.get_content_type() in types and bool(answer.read(1))
    except OSError:
        return False
