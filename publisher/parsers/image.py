"""Decode an image, and make a small upright JPEG of it where channels need one."""

from __future__ import annotations

import base64
import io
from typing import Any, BinaryIO

from PIL import Image, ImageCms

_ORIENTATION = 0x0112
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
_PLAIN = ("RGB", "RGBA", "L", "LA", "P")
_QUALITIES = (90, 80, 65, 50, 35)


class Bomb(Exception):
    """The image has more pixels than its header said."""


def main(file: BinaryIO, pixels: int, edge: int, most: int, is_plain: bool) -> dict[str, Any]:
    """Return how the image stands, and a JPEG of it unless any channel could take it as it is.

    That is the case if ``is_plain`` and nothing in the image speaks against it. The JPEG has at
    most ``edge`` pixels a side and ``most`` bytes, stands upright, and has no metadata.
    """
    Image.MAX_IMAGE_PIXELS = None
    image: Image.Image = Image.open(file, formats=_FORMATS)
    if image.width * image.height > pixels:
        raise Bomb(f"{image.width} x {image.height}")
    turn = image.getexif().get(_ORIENTATION, 1)
    is_odd = turn in range(2, 9) or image.mode not in _PLAIN
    profile = image.info.get("icc_profile")
    if image.format == "JPEG":
        image.draft(None, (edge, edge))  # decodes at a fraction of its size
    image.load()
    found: dict[str, Any] = {"is_turned": turn in range(5, 9), "is_odd": is_odd, "jpeg": ""}
    if is_odd or not is_plain:
        small = _upright(_coloured(image, profile), turn)
        found["jpeg"] = base64.b64encode(_encoded(small, edge, most)).decode()
    return found


def _coloured(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Return the image in sRGB, on white where it is transparent."""
    if image.mode.startswith("I"):  # 16 bits of grey
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.mode in ("LA", "RGBA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        page = Image.new("RGB", image.size, "white")
        page.paste(image, mask=image.getchannel("A"))
        image = page
    if image.mode == "P":
        image = image.convert("RGB")
    if profile and image.mode in ("RGB", "CMYK"):
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            target = ImageCms.createProfile("sRGB")
            made = ImageCms.profileToProfile(image, source, target, outputMode="RGB")
        except (ImageCms.PyCMSError, OSError):
            made = None  # a broken profile, or one of other colours
        image = made or image
    return image.convert("RGB")


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE, 8: Image.Transpose.ROTATE_90,
}  # fmt: skip


def _upright(image: Image.Image, turn: int) -> Image.Image:
    return image.transpose(_TURNS[turn]) if turn in _TURNS else image


def _encoded(image: Image.Image, edge: int, most: int) -> bytes:
    while True:
        image.thumbnail((edge, edge), reducing_gap=2.0)
        for quality in _QUALITIES:
            target = io.BytesIO()
            image.info.clear()
            image.save(target, "JPEG", quality=quality, optimize=True)
            if target.tell() <= most:
                return target.getvalue()
        edge //= 2
