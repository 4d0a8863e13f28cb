"""Excel: the rows of each sheet, which count as its headings."""

from __future__ import annotations

import io
import zipfile
from typing import BinaryIO

import python_calamine

from fileproc.parsers.archives import checked
from fileproc.parsers.text import Damaged, Text


def read(file: BinaryIO, text: Text) -> None:
    try:
        checked(file).close()
        file.seek(0)
        book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        text.is_table = True
        for name in book.sheet_names:
            text.heading(1, name)
            text.add(f"{name}\n")
            for row in book.get_sheet_by_name(name).iter_rows():
                cells = [_cell(value) for value in row]
                if any(cells):
                    text.add("\t".join(cells).rstrip() + "\n")
    except (python_calamine.CalamineError, zipfile.BadZipFile):
        raise Damaged from None


def _cell(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return " ".join(str(value).split())
