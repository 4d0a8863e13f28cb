"""PDF, page by page."""

from __future__ import annotations

from typing import BinaryIO

import pypdfium2

from fileproc.parsers.ocr import Reader
from fileproc.parsers.text import Damaged, Encrypted, Text, TooLarge

FEW = 16
"""A page with fewer letters and a picture is a scan."""
DPI, MOST_PIXELS = 200, 25_000_000


def read(file: BinaryIO, text: Text, pages: int, reader: Reader | None) -> None:
    try:
        document = pypdfium2.PdfDocument(file.read())
        count = len(document)
    except pypdfium2.PdfiumError as error:
        raise (Encrypted if "password" in str(error).lower() else Damaged) from None
    if count > pages:
        raise TooLarge
    unread = 0
    for number in range(count):
        text.page()
        try:
            page = document[number]
            words = page.get_textpage()
            found = words.get_text_bounded()
            words.close()
            if len(found.strip()) < FEW and _has_picture(page):
                if reader is None:
                    text.unread += 1
                else:
                    found = f"{found}\n{_recognised(page, reader)}"
            page.close()
        except pypdfium2.PdfiumError:
            unread += 1
            continue
        if found.strip():
            text.add(found.replace("\r\n", "\n") + "\n\f")
    if unread == count:
        raise Damaged
    if unread:
        text.warnings.append(f"{unread} pages could not be read")


def _has_picture(page: pypdfium2.PdfPage) -> bool:
    wanted = [pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]
    return next(page.get_objects(filter=wanted, max_depth=3), None) is not None


def _recognised(page: pypdfium2.PdfPage, reader: Reader) -> str:
    """Return the text of a scanned page."""
    width, height = page.get_size()
    scale = DPI / 72
    if width * height * scale**2 > MOST_PIXELS:
        scale = (MOST_PIXELS / (width * height)) ** 0.5
    return reader.text(page.render(scale=scale, grayscale=True).to_pil())
