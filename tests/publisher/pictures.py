"""Pictures for tests: a red upper half above a blue one, so that it shows how they stand."""

from __future__ import annotations

import io
import random
from typing import Any

from PIL import Image

RED, BLUE = (220, 20, 20), (20, 20, 220)


def picture(
    form: str = "JPEG", size: tuple[int, int] = (60, 80), mode: str = "RGB", turned: int = 1,
    **options: Any,
) -> bytes:  # fmt: skip
    """Return a picture; one that is ``turned`` stands upright only by its metadata."""
    image = Image.new("RGB", size, BLUE)
    image.paste(RED, (0, 0, size[0], size[1] // 2))
    if turned == 6:
        image = image.transpose(Image.Transpose.ROTATE_90)
    if turned != 1:
        options["exif"] = exif = Image.Exif()
        exif[0x0112] = turned
    return encoded(image.convert(mode), form, **options)


def noise(size: tuple[int, int], **options: Any) -> bytes:
    """Return a JPEG that is large for its size."""
    data = random.Random(7).randbytes(size[0] * size[1] * 3)
    return encoded(Image.frombytes("RGB", size, data), "JPEG", **options)


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    """Return the bytes of a file."""
    target = io.BytesIO()
    image.save(target, form, **options)
    return target.getvalue()


def opened(data: bytes) -> Image.Image:
    """Return what a program sees that knows nothing of metadata."""
    return Image.open(io.BytesIO(data))


def is_upright(data: bytes) -> bool:
    """Return whether the red half is above."""
    image = opened(data).convert("RGB")
    above = image.getpixel((image.width // 2, image.height // 4))
    below = image.getpixel((image.width // 2, 3 * image.height // 4))
    assert isinstance(above, tuple) and isinstance(below, tuple)
    return above[0] > 150 > above[2] and below[2] > 150 > below[0]
