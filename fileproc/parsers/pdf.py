"""PDF, page by page."""

from __future__ import annotations

from typing import BinaryIO

import pypdfium2

from fileproc.parsers.text import Damaged, Encrypted, Text, TooLarge


def read(file: BinaryIO, text: Text, pages: int) -> None:
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
