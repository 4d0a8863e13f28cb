"""Documents that attack their readers, made with nothing but the standard library."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

from tests.fileproc import documents

Made = Callable[[], bytes]
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def _word(body: str, head: str = "") -> str:
    return f'{head}<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>'


def _paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def overlapping() -> bytes:
    """An archive whose members all share the same bytes."""
    members: dict[str, str | bytes] = {f"word/{n}.xml": "x" * 5000 for n in range(30)}
    members["word/document.xml"] = _word(_paragraph("x"))
    data = bytearray(documents.archive(members))
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        data[place + 42 : place + 46] = bytes(4)  # every member begins at 0
        place = data.find(b"PK\x01\x02", place + 4)
    return bytes(data)


def crowded() -> bytes:
    """An archive of more members than anybody needs."""
    members: dict[str, str | bytes] = {f"{n}": "" for n in range(10_001)}
    return documents.archive({**members, "word/document.xml": _word(_paragraph("x"))})


def lying() -> bytes:
    """An archive whose directory tells a smaller size than that of its member."""
    data = bytearray(documents.archive({"word/document.xml": _word(_paragraph("word " * 9999))}))
    place = data.rfind(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", 10)
    return bytes(data)


def locked() -> bytes:
    """An archive whose members are encrypted."""
    data = bytearray(documents.docx())
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        data[place + 8] |= 1
        place = data.find(b"PK\x01\x02", place + 4)
    return bytes(data)


def nested() -> bytes:
    """A document that carries a bomb, which nobody has to open."""
    text = _word(_paragraph("harmless words"))
    return documents.archive({
        "word/document.xml": text, "word/embeddings/bomb.docx": documents.docx_bomb(),
        "../../outside.txt": "x", "/etc/passwd": "x",
    })  # fmt: skip


def laughing() -> bytes:
    """A Word document of entities that grow a billion times."""
    entities = '<!ENTITY a0 "ha">' + "".join(
        f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10)
    )
    head = f"<!DOCTYPE w [{entities}]>"
    return documents.archive({"word/document.xml": _word(_paragraph("&a9;"), head)})


def reaching() -> bytes:
    """A Word document that wants a file of this machine, and one of another."""
    head = ('<!DOCTYPE w [<!ENTITY file SYSTEM "file:///etc/passwd">'
            '<!ENTITY net SYSTEM "http://127.0.0.1:9/x">]>')  # fmt: skip
    return documents.archive(
        {"word/document.xml": _word(_paragraph("before &file; &net; after"), head)}
    )


def strings_bomb() -> bytes:
    """A workbook whose shared strings unpack to 400 MB."""
    out = io.BytesIO(documents.xlsx())
    packed = zipfile.ZipInfo("xl/sharedStrings.xml")
    packed.compress_type = zipfile.ZIP_DEFLATED
    with (
        zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as made,
        made.open(packed, "w", force_zip64=True) as member,
    ):
        for _ in range(400):
            member.write(b" " * 1024**2)
    return out.getvalue()


def endless_pages() -> bytes:
    """A PDF of more pages than the limit, all of them the same one."""
    return _pdf({2: b"<< /Type /Pages /Count 100000 /Kids [" + b"4 0 R " * 100_000 + b"] >>"})


def looping() -> bytes:
    """A PDF whose tree of pages contains itself."""
    return _pdf({2: b"<< /Type /Pages /Kids [2 0 R] /Count 1 /Parent 2 0 R >>"})


def exponential() -> bytes:
    """A PDF of forms that draw each other, ten times each."""
    forms = {}
    for n in range(5, 25):
        body = b" ".join([b"/F Do"] * 10) if n < 24 else b"BT /F1 1 Tf (x) Tj ET"
        inner = f"/XObject << /F {n + 1} 0 R >>" if n < 24 else "/Font << /F1 3 0 R >>"
        forms[n] = (
            f"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << {inner} >> "
            f"/Length {len(body)} >>\nstream\n".encode()
            + body
            + b"\nendstream"
        )
    page = (b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 25 0 R "
            b"/Resources << /XObject << /F 5 0 R >> >> >>")  # fmt: skip
    return _pdf({4: page, **forms, 25: b"<< /Length 5 >>\nstream\n/F Do\nendstream"})


def scripted() -> bytes:
    """A PDF that wants to run a script and a program when it is opened."""
    data = documents.pdf()
    launch = b"/OpenAction << /S /Launch /F (/bin/sh) >> /AA << /O << /S /JavaScript /JS (x) >> >>"
    return data.replace(b"/Type /Catalog", b"/Type /Catalog " + launch)


def _pdf(changed: dict[int, bytes]) -> bytes:
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        4: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>",
        **changed,
    }
    out, places = bytearray(b"%PDF-1.5\n"), []
    for number in sorted(objects):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + objects[number] + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out + f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\n"
                 f"startxref\n{start}\n%%EOF".encode())  # fmt: skip


def picture() -> bytes:
    """A PNG of 40,000 by 40,000 points in a few bytes."""
    head = struct.pack(">IIBBBBB", 40_000, 40_000, 1, 0, 0, 0, 0)
    chunk = b"IHDR" + head
    return (b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(head)) + chunk
            + struct.pack(">I", zlib.crc32(chunk)))  # fmt: skip


HTML_ATTACK = b"""<html><body><script>var canary = 1</script><style>canary</style>
<img src="http://127.0.0.1:9/x" onerror="canary()"><iframe src="file:///etc/passwd"></iframe>
<p>plain words</p></body></html>"""
SVG = b"""<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<html><svg onload="canary()"><text>&x;</text></svg><p>plain words</p></html>"""

FAILING: dict[str, tuple[str, Made, set[str]]] = {
    "overlapping members": ("a.docx", overlapping, {"BOMB"}),
    "too many members": ("a.docx", crowded, {"BOMB"}),
    "a ratio of a thousand": ("a.docx", documents.docx_bomb, {"BOMB"}),
    "a size that lies": ("a.docx", lying, {"DAMAGED"}),
    "an encrypted archive": ("a.docx", locked, {"ENCRYPTED"}),
    "an archive of nothing known": (
        "a.docx",
        lambda: documents.archive({"x": "y"}),
        {"UNSUPPORTED_TYPE"},
    ),
    "half an archive": ("a.docx", lambda: documents.docx()[:400], {"DAMAGED"}),
    "a billion laughs": ("a.docx", laughing, {"DAMAGED"}),
    "shared strings of 400 MB": ("a.xlsx", strings_bomb, {"BOMB"}),
    "a cell far away": ("a.xlsx", lambda: documents.xlsx(last="XFD1048576"), {"CRASHED", "BOMB"}),
    "a page of two gigabytes": ("a.pdf", documents.pdf_bomb, {"CRASHED", "BOMB", "TIMEOUT"}),
    "too many pages": ("a.pdf", endless_pages, {"LIMIT_EXCEEDED"}),
    "pages in a circle": ("a.pdf", looping, {"DAMAGED", "NO_TEXT"}),
    "an encrypted PDF": ("a.pdf", lambda: documents.pdf(encrypt=True), {"ENCRYPTED"}),
    "half a PDF": ("a.pdf", lambda: documents.pdf()[:300], {"DAMAGED"}),
    "a PDF that is an archive, too": (
        "a.pdf",
        lambda: b"%PDF-1.4\n" + documents.docx(),
        {"DAMAGED"},
    ),
    "a picture": ("a.pdf", picture, {"UNSUPPORTED_TYPE"}),
    "a TIFF": ("a.txt", lambda: b"II*\x00" + bytes(100), {"UNSUPPORTED_TYPE"}),
    "a GIF that is a script, too": ("a.html", lambda: b"GIF89a/*" + bytes(9), {"UNSUPPORTED_TYPE"}),
    "a program": ("a.txt", lambda: b"\x7fELF" + bytes(100), {"UNSUPPORTED_TYPE"}),
    "NUL in a table": ("a.csv", lambda: b"a,b\n\x00,1\n", {"UNSUPPORTED_TYPE"}),
    "a line without an end": ("a.csv", lambda: b"x" * 20_000_001, {"LIMIT_EXCEEDED"}),
    "JSON without a bottom": ("a.json", lambda: b"[" * 200_000, {"DAMAGED"}),
}
"""Each with its name, and the codes with which it may fail."""
HARMLESS: dict[str, tuple[str, Made, str]] = {
    "a bomb inside, and paths that lead outside": ("a.docx", nested, "harmless words"),
    "entities of other files": ("a.docx", reaching, "before"),
    "scripts and programs": ("a.pdf", scripted, "lighthouse"),
    "scripts and frames": ("a.html", lambda: HTML_ATTACK, "plain words"),
    "a drawing with scripts": ("a.html", lambda: SVG, "plain words"),
    "200,000 nested elements": (
        "a.html",
        lambda: b"<html><body><p>plain</p>" + b"<div>" * 200_000,
        "plain",
    ),
    "forms that draw each other": ("a.pdf", exponential, ""),
}
"""What is read, but does nothing that it should not."""
