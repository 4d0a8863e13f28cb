"""Documents of every type, made with nothing but the standard library."""

from __future__ import annotations

import io
import zipfile
import zlib

WORDS = "The lighthouse keeper repairs the lamp before every storm."
_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_S = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_P = "http://schemas.openxmlformats.org/package/2006"
_D = "http://schemas.openxmlformats.org/drawingml/2006/main"
_L = "http://schemas.openxmlformats.org/presentationml/2006/main"


def pdf(*pages: str, content: bytes | None = None, encrypt: bool = False) -> bytes:
    """A PDF with a line of text on each page, or one page with this compressed content."""
    texts = pages or (WORDS,)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(texts)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, text in enumerate(texts):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        shown = text.replace("(", "").replace(")", "")
        stream = content or zlib.compress(f"BT /F1 12 Tf 50 700 Td ({shown}) Tj ET".encode())
        head = f"<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n".encode()
        objects.append(head + stream + b"\nendstream")
    encryption = ""
    if encrypt:
        objects.append(
            b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <" + b"41" * 32 + b"> /U <" + b"42" * 32
            + b"> >>"
        )  # fmt: skip
        encryption = f"/Encrypt {len(objects)} 0 R /ID [<{'00' * 16}> <{'00' * 16}>] "
    out, places = bytearray(b"%PDF-1.5\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R {encryption}>>\n"
    return bytes(out + f"{trailer}startxref\n{start}\n%%EOF".encode())


def archive(members: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return out.getvalue()


def docx(*paragraphs: tuple[str, str], pictures: tuple[bytes, ...] = ()) -> bytes:
    """A Word document of paragraphs, the id of a style and the text of each, and of pictures."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs or [("Heading1", "Duties"), ("Normal", WORDS)]
    )
    body += "".join(
        f'<w:p><w:r><w:drawing><a:blip xmlns:a="{_D}" xmlns:r="{_R}" r:embed="r{n}"/></w:drawing>'
        "</w:r></w:p>"
        for n in range(len(pictures))
    )
    links = "".join(
        f'<Relationship Id="r{n}" Type="{_R}/image" Target="media/{n}.png"/>'
        for n in range(len(pictures))
    )
    styles = "".join(
        f'<w:style w:styleId="Heading{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2)
    )
    return archive({
        "word/document.xml": f'<w:document xmlns:w="{_W}"><w:body>{body}</w:body></w:document>',
        "word/styles.xml": f'<w:styles xmlns:w="{_W}">{styles}</w:styles>',
        "word/_rels/document.xml.rels": _links(links),
        **{f"word/media/{n}.png": data for n, data in enumerate(pictures)},
    })  # fmt: skip


def xlsx(*rows: tuple[str, ...], last: str = "") -> bytes:
    """An Excel workbook with one sheet, Lamps; ``last`` is a cell far away from the others."""
    given = rows or (("name", "power"), ("lighthouse", "1000"))
    body = "".join(
        f'<row r="{n}">'
        + "".join(
            f'<c r="{chr(64 + k)}{n}" t="inlineStr"><is><t>{cell}</t></is></c>'
            for k, cell in enumerate(row, 1)
        )
        + "</row>"
        for n, row in enumerate(given, 1)
    )
    if last:
        body += f'<row r="1048576"><c r="{last}" t="inlineStr"><is><t>x</t></is></c></row>'
    office = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return archive({
        "[Content_Types].xml": f'<Types xmlns="{_P}/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{office}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/s1.xml" ContentType="{office}.worksheet+xml"/>'
        "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{_P}/relationships"><Relationship Id="r1" '
        f'Type="{_R}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_S}" xmlns:r="{_R}"><sheets>'
        '<sheet name="Lamps" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_P}/relationships">'
        f'<Relationship Id="r1" Type="{_R}/worksheet" Target="worksheets/s1.xml"/>'
        "</Relationships>",
        "xl/worksheets/s1.xml": f'<worksheet xmlns="{_S}"><sheetData>{body}'
        "</sheetData></worksheet>",
    })  # fmt: skip


def pptx(
    *slides: tuple[str, str], notes: str = "", picture: bytes = b"", backwards: bool = False
) -> bytes:
    """A presentation of slides with a title and a text; the first one may have more.

    ``backwards`` stores the slides in the opposite order of that in which they are shown.
    """
    given = slides or (("Duties", WORDS), ("Supplies", "Oil and wicks"))
    numbers = range(1, len(given) + 1)
    files = dict(zip(numbers, reversed(numbers) if backwards else numbers, strict=True))
    members: dict[str, str | bytes] = {}
    for n, (title, text) in enumerate(given, 1):
        links = ""
        body = _shape("title", title) + _shape("body", text) + _shape("sldNum", f"{n}0{n}")
        if n == 1 and picture:
            body += f'<p:pic><p:blipFill><a:blip xmlns:r="{_R}" r:embed="r7"/></p:blipFill></p:pic>'
            links += f'<Relationship Id="r7" Type="{_R}/image" Target="../media/p.png"/>'
            members["ppt/media/p.png"] = picture
        if n == 1 and notes:
            links += f'<Relationship Id="r8" Type="{_R}/notesSlide" Target="../notesSlides/n.xml"/>'
            members["ppt/notesSlides/n.xml"] = _slide("notes", _shape("body", notes))
        members[f"ppt/slides/slide{files[n]}.xml"] = _slide("sld", body)
        members[f"ppt/slides/_rels/slide{files[n]}.xml.rels"] = _links(links)
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="r{n}"/>' for n in numbers)
    links = "".join(
        f'<Relationship Id="r{n}" Type="{_R}/slide" Target="slides/slide{files[n]}.xml"/>'
        for n in numbers
    )
    members["ppt/_rels/presentation.xml.rels"] = _links(links)
    members["ppt/presentation.xml"] = (
        f'<p:presentation xmlns:p="{_L}" xmlns:r="{_R}"><p:sldIdLst>{ids}</p:sldIdLst>'
        "</p:presentation>"
    )
    return archive(members)


def _slide(kind: str, body: str) -> str:
    tree = f"<p:cSld><p:spTree>{body}</p:spTree></p:cSld>"
    return f'<p:{kind} xmlns:p="{_L}" xmlns:a="{_D}">{tree}</p:{kind}>'


def _shape(role: str, text: str) -> str:
    return (
        f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{role}"/></p:nvPr></p:nvSpPr><p:txBody>'
        f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def _links(body: str) -> str:
    return f'<Relationships xmlns="{_P}/relationships">{body}</Relationships>'


def picture(text: str = WORDS, kind: str = "PNG") -> bytes:
    """A picture of a line of text."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (1400, 120), "white")
    font = ImageFont.load_default(40)
    ImageDraw.Draw(image).text((20, 30), text, fill="black", font=font)
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def _packed(name: str) -> zipfile.ZipInfo:
    found = zipfile.ZipInfo(name)
    found.compress_type = zipfile.ZIP_DEFLATED
    return found


def docx_bomb() -> bytes:
    """A Word document that unpacks to 400 MB."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made,
        made.open(_packed("word/document.xml"), "w", force_zip64=True) as member,
    ):
        for _ in range(400):
            member.write(b" " * 1024 * 1024)
    return out.getvalue()


def pdf_bomb() -> bytes:
    """A PDF with a page of two gigabytes."""
    packer = zlib.compressobj(9)
    pieces = [packer.compress(b"BT /F1 12 Tf 50 700 Td (start) Tj ET\n")]
    pieces += [packer.compress(b" " * 10_000_000) for _ in range(200)]
    return pdf(content=b"".join([*pieces, packer.flush()]))


MARKDOWN = f"""# Handbook

## Duties

{WORDS}

```
# not a heading
```

## Supplies

Oil and wicks are kept in the cellar.
""".encode()
HTML = f"""<!doctype html><html><head><title>x</title><script>var hidden = 1</script></head>
<body><nav>Menu</nav><h1>Handbook</h1><p>{WORDS}</p><h2>Supplies</h2><p>Oil &amp; wicks</p>
</body></html>""".encode()
EVERY = {
    "pdf": pdf(),
    "docx": docx(),
    "pptx": pptx(),
    "xlsx": xlsx(),
    "csv": b"name,power\nlighthouse,1000\n",
    "txt": WORDS.encode(),
    "md": MARKDOWN,
    "html": HTML,
    "json": b'{"lighthouse": {"power": 1000}}',
    "png": picture(),
    "jpeg": picture(kind="JPEG"),
    "gif": picture(kind="GIF"),
    "webp": picture(kind="WEBP"),
    "bmp": picture(kind="BMP"),
}
