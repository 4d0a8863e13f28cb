"""Images, decoded in a sandbox, and their copies for channels that cannot take them as they are."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from jobs import sandbox
from publisher import channels, connectors, sniffing
from publisher.connectors.base import Taken
from publisher.models import Asset

MOST_PIXELS = 60_000_000
EDGE, COPY_BYTES = 2048, 1_000_000
"""At most how many pixels a side and how many bytes a copy has: all channels take it."""
LIMITS = sandbox.Limits(memory=1536 * 1024**2, cpu=30, wall=60, output=8 * 1024**2)


ALL = Taken(("image/jpeg",), COPY_BYTES)
"""What every channel with images takes."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What decoding an image has shown."""

    is_turned: bool
    """Whether it lies on its side."""
    is_odd: bool
    """Whether no channel is to get it as it is: it is not upright, or its colours are for print."""
    jpeg: bytes
    """The copy; empty if every channel takes the image as it is."""


def is_installed() -> bool:
    """Return whether images can be decoded here."""
    return find_spec("PIL") is not None


def decode(path: str, found: sniffing.Found, size: int) -> Decoded | None:
    """Decode an image; return None if Pillow is not installed. Raises Broken."""
    if not is_installed():
        return None
    is_plain = found.content_type in ALL.types and size <= ALL.most
    options = {"pixels": MOST_PIXELS, "edge": EDGE, "most": COPY_BYTES, "is_plain": is_plain}
    ended = sandbox.run("publisher.parsers.image", path, LIMITS, options=options)
    if ended.status == "error" and ended.type != "Bomb":
        raise sniffing.Broken("the image cannot be read")
    if ended.status != "ok":
        raise sniffing.Broken("the image takes too much memory or time to be decoded")
    try:
        return _checked(ended.value)
    except (KeyError, TypeError, ValueError, sniffing.Broken):
        raise sniffing.Broken("the image cannot be read") from None


def _checked(value: Any) -> Decoded:
    """Return what the child has returned, of which nothing is trusted."""
    jpeg = base64.b64decode(value["jpeg"], validate=True)
    made = Decoded(value["is_turned"] is True, value["is_odd"] is True, jpeg)
    if made.is_odd and not jpeg:
        raise ValueError("there is no copy")
    if jpeg:
        copy = sniffing.sniff(io.BytesIO(jpeg))
        is_right = copy.content_type == "image/jpeg" and max(copy.width, copy.height) <= EDGE
        if not is_right or len(jpeg) > COPY_BYTES:
            raise ValueError("the copy is none")
    return made


def needs_copy(asset: Asset, channel: str) -> bool:
    """Return whether a channel is to get the copy of an image instead of the image."""
    taken = connectors.of(channel).images
    if taken is None or asset.kind != Asset.Kind.IMAGE:
        return False
    return asset.is_odd or asset.content_type not in taken.types or asset.size > taken.most


def why_not(asset: Asset, channel: str) -> str:
    """Return why a channel cannot get an image; nothing if it can."""
    taken = connectors.of(channel).images
    if taken is None or asset.copy_size or not needs_copy(asset, channel):
        return ""
    types = ", ".join(one.partition("/")[2].upper() for one in taken.types)
    return (
        f"{channels.label(channel)} takes {types} up to {taken.most // 10**6} MB, and this cannot "
        "be converted: install Pillow (the extra `publisher`) and upload it again"
    )
