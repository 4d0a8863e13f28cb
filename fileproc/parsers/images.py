"""Pictures: their format and size, and their text where it can be recognised."""

from __future__ import annotations

from typing import IO, BinaryIO

from PIL import Image, UnidentifiedImageError

from fileproc.parsers.ocr import Reader
from fileproc.parsers.text import Bomb, Damaged, Text, Unsupported

FORMATS = {"png": "PNG", "jpeg": "JPEG", "gif": "GIF", "webp": "WEBP", "bmp": "BMP"}
PIXELS = 60_000_000
Image.MAX_IMAGE_PIXELS = PIXELS


def opened(file: IO[bytes]) -> Image.Image:
    """Return a picture, of which only the head has been read; raise Bomb, Damaged, Unsupported."""
    try:
        image = Image.open(file, formats=tuple(FORMATS.values()))
    except UnidentifiedImageError:
        raise Unsupported from None
    except Image.DecompressionBombError:
        raise Bomb from None
    except (OSError, ValueError, SyntaxError):
        raise Damaged from None
    if image.width * image.height > PIXELS:
        raise Bomb
    return image


def read(file: BinaryIO, text: Text, name: str, reader: Reader | None) -> None:
    """Describe a picture, without what its camera has noted, and add its text."""
    with opened(file) as image:
        text.add(f"{name}\n{image.format}, {image.width} × {image.height} pixels\n")  # noqa: RUF001
        if reader is None:
            text.unread += 1
        else:
            text.add(f"\n{reader.text(image)}")
