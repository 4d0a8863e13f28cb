"""How services count the length of a text, where it is not by code points."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

LINK = regex.compile(r"https?://[^\s<>\"]+", regex.IGNORECASE)
_DOMAIN = regex.compile(
    r"(?<![\w@.#/-])(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+"
    r"(?:com|net|org|info|biz|edu|gov|app|dev|shop|online|site|store|blog|io|co|ai|eu|it|de|fr|es"
    r"|uk|pt|br)"
    r"(?![\w-])(?:/[^\s<>\"]*)?",
    regex.IGNORECASE,
)
_END = ".,;:!?'\")]}…"
"""Characters that end a sentence, and not a link."""
_CLUSTER = regex.compile(r"\X")
_EMOJI = regex.compile(r"[\p{Extended_Pictographic}\p{Regional_Indicator}]|[0-9#*]\uFE0F?\u20E3")
_LIGHT = ((0, 4351), (8192, 8205), (8208, 8223), (8242, 8247))
"""Code points that X counts once; others count twice."""
_MENTION = regex.compile(r"(?<![\w/])@([\w.-]*\w)@[\w.-]*\w")
LINK_LENGTH = 23
"""Of a link on X and Mastodon, however long it is."""


def graphemes(text: str) -> int:
    """Return the number of characters that a person sees."""
    return sum(1 for _ in _CLUSTER.finditer(text))


def weighted(text: str) -> int:
    """Return the length as X counts it: links 23, emoji and most other scripts 2 each."""
    text = unicodedata.normalize("NFC", text)
    return sum(LINK_LENGTH if is_link else _weight(part) for is_link, part in _parts(text))


def _weight(text: str) -> int:
    found = 0
    for cluster in _CLUSTER.finditer(text):
        if _EMOJI.search(cluster[0]) and not cluster[0].isascii():
            found += 2
        else:
            found += sum(1 if _is_light(ord(one)) else 2 for one in cluster[0])
    return found


def _is_light(point: int) -> bool:
    return any(first <= point <= last for first, last in _LIGHT)


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the text in parts, each with whether X makes a link of it."""
    at = 0
    for start, end in links(text):
        yield False, text[at:start]
        yield True, text[start:end]
        at = end
    yield False, text[at:]


def links(text: str, *, bare: bool = True) -> list[tuple[int, int]]:
    """Return where links begin and end; ``bare`` ones have no ``https://``."""
    found = [one.span() for one in LINK.finditer(text)]
    if bare:
        taken = list(found)
        for one in _DOMAIN.finditer(text):
            if not any(first <= one.start() < last for first, last in taken):
                found.append(one.span())
    return sorted((start, start + len(text[start:end].rstrip(_END))) for start, end in found)


def shortened(text: str) -> int:
    """Return the length as Mastodon counts it: links 23, and mentions without their server."""
    at, found = 0, 0
    for start, end in links(text, bare=False):
        found += graphemes(without_servers(text[at:start])) + LINK_LENGTH
        at = end
    return found + graphemes(without_servers(text[at:]))


def without_servers(text: str) -> str:
    """Return the text with mentions as Mastodon shows them."""
    return str(_MENTION.sub(r"@\1", text))
