"""Where a picture was taken, and by whom, leaves with none of the files that are published."""

from __future__ import annotations

import io
import random
import struct
import tempfile
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import blobs
from publisher import metadata, sniffing
from publisher.models import Asset
from tests.api.conftest import Caller
from tests.publisher.pictures import picture
from tests.publisher.test_assets import (
    ASSETS,
    announced,
    caller,
    jpeg,
    mp4,
    png,
    send,
    store,
)

__all__ = ["caller", "store"]  # fixtures
SECRET = b"45.0703 N 7.6869 E"


def exif(turned: int = 1, order: str = ">") -> bytes:
    """Metadata of a camera: how the image is to be turned, and where it was taken."""
    mark = b"MM\x00\x2a" if order == ">" else b"II\x2a\x00"
    entries = struct.pack(f"{order}HHIHH", 0x0112, 3, 1, turned, 0)
    entries += struct.pack(f"{order}HHII", 0x8825, 4, 1, 60)
    return mark + struct.pack(f"{order}IH", 8, 2) + entries + bytes(4) + SECRET


def segment(mark: int, body: bytes) -> bytes:
    return bytes([0xFF, mark]) + struct.pack(">H", len(body) + 2) + body


def told_jpeg(turned: int = 1, order: str = ">", plain: bytes = b"") -> bytes:
    """A JPEG with everything that cameras and programs write into one."""
    plain = plain or jpeg()
    told = (
        segment(0xE1, b"Exif\x00\x00" + exif(turned, order))
        + segment(0xE1, b"http://ns.adobe.com/xap/1.0/\x00" + SECRET)
        + segment(0xE2, b"ICC_PROFILE\x00\x01\x01colours")
        + segment(0xE2, b"MPF\x00" + SECRET)
        + segment(0xED, b"Photoshop 3.0\x00" + SECRET)
        + segment(0xEE, b"Adobe\x00\x64\x00\x00\x00\x00\x00")
        + segment(0xFE, SECRET)
    )
    return plain[:2] + told + plain[2:] + b"\xff\xd8" + SECRET + b"\xff\xd9"


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def told_png(turned: int = 1) -> bytes:
    texts = b"".join(chunk(name, SECRET) for name in (b"tEXt", b"zTXt", b"iTXt", b"tIME"))
    plain = png()
    return plain[:33] + texts + chunk(b"eXIf", exif(turned)) + plain[33:] + SECRET


def told_webp(turned: int = 1) -> bytes:
    def part(name: bytes, data: bytes) -> bytes:
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    body = (
        part(b"VP8X", b"\x2c\0\0\0\x03\0\0\x02\0\0") + part(b"ICCP", b"colours")
        + part(b"VP8 ", bytes(20)) + part(b"EXIF", exif(turned)) + part(b"XMP ", SECRET)
    )  # fmt: skip
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def gif(told: bytes = b"") -> bytes:
    picture = b"\x2c" + struct.pack("<HHHHB", 0, 0, 4, 3, 0) + b"\x02\x02\x44\x01\x00"
    loop = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
    head = b"GIF89a" + struct.pack("<HHBBB", 4, 3, 0x80, 0, 0) + bytes(6)
    return head + loop + told + picture + b"\x3b"


def told_gif() -> bytes:
    block = bytes([len(SECRET)]) + SECRET + b"\x00"
    return gif(b"\x21\xfe" + block + b"\x21\xff\x0bXMP DataXMP" + block) + SECRET


def box(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I4s", len(data) + 8, name) + data


def told_mp4() -> bytes:
    """A video that says where it was taken, for the whole and for its track."""
    plain = mp4()
    start = plain.index(b"moov") - 4
    size = struct.unpack(">I", plain[start : start + 4])[0]
    moov = plain[start + 8 : start + size]
    told = box(b"udta", box(b"\xa9xyz", SECRET)) + box(b"meta", SECRET)
    trak = moov.index(b"trak") - 4
    track = box(b"trak", moov[trak + 8 :] + told)
    return (
        plain[:start] + box(b"moov", moov[:trak] + track + told) + box(b"uuid", SECRET)
        + plain[start + size :]
    )  # fmt: skip


def cleaned(data: bytes, content_type: str) -> bytes | None:
    """What is left of a file; None if there is nothing to remove."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(data)
        source.flush()
        is_changed = metadata.clean(source, target, content_type)
        target.seek(0)
        return target.read() if is_changed else None


TOLD = {
    "image/jpeg": told_jpeg, "image/png": told_png, "image/webp": told_webp,
    "image/gif": told_gif, "video/mp4": told_mp4,
}  # fmt: skip


@pytest.mark.parametrize("content_type", TOLD)
def test_nothing_of_the_metadata_is_left_and_the_file_is_whole(content_type: str) -> None:
    data: bytes = TOLD[content_type]()
    assert SECRET in data
    made = cleaned(data, content_type)
    assert made is not None and SECRET not in made and b"xyz" not in made
    before, after = (sniffing.sniff(io.BytesIO(one)) for one in (data, made))
    assert before == after
    assert cleaned(made, content_type) is None  # there is nothing more to remove


@pytest.mark.parametrize(
    ("data", "content_type"),
    [(jpeg(), "image/jpeg"), (png(), "image/png"), (gif(), "image/gif"), (mp4(), "video/mp4")],
)
def test_a_file_without_metadata_stays_as_it_is(data: bytes, content_type: str) -> None:
    assert cleaned(data, content_type) is None


def test_what_the_image_needs_stays() -> None:
    made = cleaned(told_jpeg(), "image/jpeg")
    assert made is not None and b"ICC_PROFILE" in made and b"Adobe" in made
    assert made.endswith(b"data\xff\xd9")  # without the further image that followed
    video = cleaned(told_mp4(), "video/mp4")
    assert video is not None and len(video) == len(told_mp4())
    assert video.index(b"mdat") == told_mp4().index(b"mdat")  # tables of the tracks point there


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("turned", range(1, 9))
def test_how_an_image_is_turned_stays(turned: int, order: str) -> None:
    made = cleaned(told_jpeg(turned, order), "image/jpeg")
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, turned, 0)
    assert made is not None and (entry in made) == (turned > 1)
    for content_type, data in (("image/png", told_png(turned)), ("image/webp", told_webp(turned))):
        made = cleaned(data, content_type)
        assert made is not None and (entry in made) == (turned > 1)


def test_a_progressive_jpeg_is_read_scan_by_scan() -> None:
    scan = segment(0xDA, b"") + b"a\xff\x00b\xff\xd0c"
    data = jpeg()[:-2] + segment(0xC4, b"table") + scan + segment(0xFE, SECRET) + scan + b"\xff\xd9"
    made = cleaned(data, "image/jpeg")
    assert made == data.replace(segment(0xFE, SECRET), b"")


@given(st.sampled_from(sorted(TOLD)), st.integers(0, 10**9))
def test_a_damaged_file_is_refused_or_cleaned_but_ends(content_type: str, seed: int) -> None:
    chance, data = random.Random(seed), bytearray(TOLD[content_type]())
    for _ in range(chance.randrange(1, 6)):
        data[chance.randrange(12, len(data))] = chance.randrange(256)
    del data[chance.randrange(40, len(data)) :]
    try:
        cleaned(bytes(data), content_type)
    except sniffing.Broken:
        return


@pytest.mark.django_db
def test_an_upload_is_stored_without_its_metadata(caller: Caller, store: blobs.Store) -> None:
    data = told_jpeg(6, plain=picture())
    upload = announced(caller, data, "image/jpeg").data
    assert send(upload, data) in (200, 201, 204)
    answer: Any = caller("POST", f"{ASSETS}/{upload['id']}/confirm", {})
    assert answer.status_code == 200, answer.content
    row = Asset.objects.get()
    with store.read(row.blob) as pieces:
        stored = b"".join(pieces)
    assert stored == cleaned(data, "image/jpeg") and SECRET not in stored
    assert (row.size, answer.data["sha256"]) == (len(stored), row.sha256)
