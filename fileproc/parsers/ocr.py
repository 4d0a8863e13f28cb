"""Recognising the text of pictures, by Tesseract.

Pillow and Tesseract are imported where there is a picture: most documents have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fileproc.parsers.text import Bomb, Damaged, TooLarge

if TYPE_CHECKING:
    from PIL.Image import Image

LIMIT = 50
"""Pictures or scanned pages of one document whose text is recognised."""
PIXELS = 25_000_000
"""What is larger is made smaller before it is read."""
LEAST = 32
"""Pixels of a side below which a picture is an ornament."""


class Reader:
    """Recognises the text of up to ``LIMIT`` pictures of one document."""

    def __init__(self, data: str, language: str) -> None:
        self._data, self._language = data, language
        self._api: Any = None
        self._count = 0

    def text(self, image: Image) -> str:
        """Return the text of a picture; raise Damaged, or TooLarge if there are too many."""
        if min(image.size) < LEAST:
            return ""
        self._count += 1
        if self._count > LIMIT:
            raise TooLarge
        self._tesseract().SetImage(_plain(image))
        return str(self._api.GetUTF8Text()).replace("\x0c", "").strip()

    def _tesseract(self) -> Any:
        if self._api is None:
            import tesserocr

            self._api = tesserocr.PyTessBaseAPI(path=self._data, lang=self._language)
        return self._api


def _plain(image: Image) -> Image:
    """Return the picture in grey on white, upright, and no larger than it has to be."""
    from PIL import Image as images
    from PIL import ImageOps

    try:
        image.draft("L", image.size)
        upright = ImageOps.exif_transpose(image)
        if upright.mode in ("RGBA", "LA", "PA", "P"):
            clear = upright.convert("RGBA")
            white = images.new("RGBA", clear.size, "white")
            white.alpha_composite(clear)
            upright = white
        grey = upright.convert("L")
    except images.DecompressionBombError:
        raise Bomb from None
    except (OSError, ValueError, SyntaxError, EOFError):
        raise Damaged from None
    if grey.width * grey.height > PIXELS:
        grey.thumbnail((5000, 5000))
    return grey
