"""Idempotency keys: equal posts have equal keys, and no others have."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html.parser import HTMLParser

VERSION = 1


def digest(*parts: object) -> str:
    """Return the SHA-256 of the parts as a compact JSON array, so that no two lists share one."""
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(brand: str, channel: str, at: datetime, media: str, caption: str) -> str:
    """Return the key of a planned post; ``at`` may be in any time zone."""
    moment = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return digest(VERSION, brand, channel, moment, media, caption)


def media_hash(marks: Sequence[str]) -> str:
    """Return the hash of the media, by their checksums or addresses, in order."""
    return digest("media", *marks)


def caption_hash(text: str, placeholders: Mapping[str, str]) -> str:
    """Return the hash of the text that appears and the placeholders used in it."""
    return digest("caption", text, dict(placeholders))


def fallback() -> str:
    """Return the key of a request without a plan and without a key."""
    return str(uuid.uuid4())


class _Text(HTMLParser):
    """Collects the text between tags."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def text_of(html: str) -> str:
    """Return the text between the tags."""
    parser = _Text()
    parser.feed(html)
    parser.close()
    return "".join(parser.found)


def comment_hash(message: str) -> str:
    """Return the hash of a comment without tags, case and differences of white space."""
    text = re.sub(r"\s+", " ", text_of(message)).strip().lower()
    return hashlib.sha256(text.encode()).hexdigest()


def comment_key(media_id: str, message: str) -> str:
    """Return the key of the first comment on a post."""
    return digest("ig_first_comment", media_id, comment_hash(message))
