"""Remove what cameras write into images and videos: places, names, devices. No pixel changes."""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from publisher.sniffing import Broken

Data = mmap.mmap | bytes
_EXIF = b"Exif\x00\x00"
_TEXTS = {b"tEXt", b"zTXt", b"iTXt", b"tIME", b"eXIf"}
"""Chunks of a PNG that say where it comes from."""
_FIRST_PARTS = {b"moov", b"trak"}
_PLACES = {b"udta", b"meta", b"uuid"}
"""Boxes of a video that say where it comes from."""


def clean(source: BinaryIO, target: BinaryIO, content_type: str) -> bool:
    """Copy a file without its metadata; return False, with nothing copied, if it has none.

    How an image is to be turned stays. Raises Broken.
    """
    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            if content_type.startswith("video/"):
                return _video(data, target)
            parts = [*_IMAGES[content_type](data)]
        except (struct.error, IndexError, ValueError):
            raise Broken("the file is not whole") from None
        if sum(end - start for start, end in _spans(parts)) == len(data):
            return False
        for part in parts:
            target.write(part if isinstance(part, bytes) else data[part[0] : part[1]])
    return True


Part = bytes | tuple[int, int]
"""New bytes, or where those of the file are that stay."""


def _spans(parts: list[Part]) -> Iterator[tuple[int, int]]:
    return (part for part in parts if not isinstance(part, bytes))


def _jpeg(data: Data) -> Iterator[Part]:
    """Yield an image up to its end: cameras append further ones, with metadata of their own."""
    yield 0, 2
    at = 2
    while True:
        if data[at] != 0xFF:
            raise Broken("the file is not whole")
        mark = data[at + 1]
        if mark == 0xD9:
            yield at, at + 2
            return
        if mark == 0xFF:  # a byte of padding
            at += 1
            continue
        end = at + 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
        body = data[at + 4 : min(end, at + 20)]
        if mark == 0xE1 and body.startswith(_EXIF):
            if turned := _orientation(bytes(data[at + 10 : end])):
                exif = _EXIF + turned
                yield b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
        elif not _tells(mark, body):
            yield at, end
        at = end
        if mark == 0xDA:
            at = _scan_end(data, end)
            yield end, at


def _tells(mark: int, body: bytes) -> bool:
    """Return whether a segment is metadata: XMP, IPTC, a comment, or a list of further images."""
    return (
        mark in (0xE1, 0xED, 0xFE)
        or (mark == 0xE2 and not body.startswith(b"ICC_PROFILE"))
        or (0xE3 <= mark <= 0xEC)
    )


def _scan_end(data: Data, at: int) -> int:
    """Return where the entropy-coded data ends that begins here."""
    while True:
        at = data.find(b"\xff", at)
        if at < 0:
            raise Broken("the file is not whole")
        if data[at + 1] != 0 and not 0xD0 <= data[at + 1] <= 0xD7:
            return at
        at += 2


def _orientation(tiff: bytes) -> bytes:
    """Return metadata that only say how the image is to be turned; none if it stands upright."""
    try:
        order = {b"II": "<", b"MM": ">"}[tiff[:2]]
        [first] = struct.unpack(f"{order}I", tiff[4:8])
        [count] = struct.unpack(f"{order}H", tiff[first : first + 2])
        for number in range(min(count, 200)):
            at = first + 2 + 12 * number
            tag, kind = struct.unpack(f"{order}HH", tiff[at : at + 4])
            [value] = struct.unpack(f"{order}H", tiff[at + 8 : at + 10])
            if (tag, kind) == (0x0112, 3) and 2 <= value <= 8:
                entry = struct.pack(">HHIHH", 0x0112, 3, 1, value, 0)
                return b"MM\x00\x2a\x00\x00\x00\x08\x00\x01" + entry + bytes(4)
    except (KeyError, struct.error):
        return b""  # it is broken, and goes as a whole
    return b""


def _png(data: Data) -> Iterator[Part]:
    yield 0, 8
    at = 8
    while True:
        size, name = struct.unpack(">I4s", data[at : at + 8])
        end = at + 12 + size
        if end > len(data):
            raise Broken("the file is not whole")
        if name == b"eXIf" and (turned := _orientation(bytes(data[at + 8 : end - 4]))):
            chunk = name + turned
            yield struct.pack(">I", len(turned)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        elif name not in _TEXTS:
            yield at, end
        if name == b"IEND":
            return
        at = end


def _webp(data: Data) -> Iterator[Part]:
    end = min(8 + struct.unpack("<I", data[4:8])[0], len(data))
    chunks: list[tuple[bytes, int, int]] = []
    at = 12
    while at + 8 <= end:
        name, size = struct.unpack("<4sI", data[at : at + 8])
        chunks.append((name, at, min(at + 8 + size + size % 2, end)))
        at = chunks[-1][2]
    turned = b""
    for name, start, stop in chunks:
        if name == b"EXIF":
            turned = _orientation(bytes(data[start + 8 : stop]).removeprefix(_EXIF))
    kept = [one for one in chunks if one[0] not in (b"EXIF", b"XMP ")]
    if len(kept) == len(chunks) and end == len(data):
        yield 0, len(data)
        return
    exif = b"EXIF" + struct.pack("<I", len(turned)) + turned if turned else b""
    size = 4 + sum(stop - start for _, start, stop in kept) + len(exif)
    yield b"RIFF" + struct.pack("<I", size) + b"WEBP"
    for name, start, stop in kept:
        if name == b"VP8X":
            flags = data[start + 8] & ~0x0C | (0x08 if turned else 0)
            yield bytes(data[start : start + 8]) + bytes([flags])
            yield start + 9, stop
        else:
            yield start, stop
    yield exif


def _gif(data: Data) -> Iterator[Part]:
    at = 13 + (3 << ((data[10] & 7) + 1) if data[10] & 0x80 else 0)
    yield 0, at
    while data[at] != 0x3B:
        start = at
        if data[at] == 0x21:
            label = data[at + 1]
            at = _blocks_end(data, at + 2)
            is_text = label in (0xFE, 0x01) or (
                label == 0xFF and data[start + 3 : start + 11] not in (b"NETSCAPE", b"ANIMEXTS")
            )
            if is_text:
                continue
        elif data[at] == 0x2C:
            table = 3 << ((data[at + 9] & 7) + 1) if data[at + 9] & 0x80 else 0
            at = _blocks_end(data, at + 10 + table + 1)
        else:
            raise Broken("the file is not whole")
        yield start, at
    yield at, at + 1


def _blocks_end(data: Data, at: int) -> int:
    while data[at]:
        at += data[at] + 1
    return at + 1


_IMAGES: dict[str, Callable[[Data], Iterator[Part]]] = {
    "image/jpeg": _jpeg, "image/png": _png, "image/webp": _webp, "image/gif": _gif,
}  # fmt: skip


def _video(data: Data, target: BinaryIO) -> bool:
    """Empty the boxes that hold metadata; all others stay where they are."""
    found = [*_places(data, 0, len(data))]
    if not found:
        return False
    at = 0
    for start, end in found:
        for piece in range(at, start, 1 << 20):
            target.write(data[piece : min(piece + (1 << 20), start)])
        target.write(struct.pack(">I4s", end - start, b"free") + bytes(end - start - 8))
        at = end
    for piece in range(at, len(data), 1 << 20):
        target.write(data[piece : piece + (1 << 20)])
    return True


def _places(data: Data, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield where the boxes with metadata are, in their order."""
    while at + 8 <= end:
        size, name = struct.unpack(">I4s", data[at : at + 8])
        skipped = 8
        if size == 1:
            size, skipped = struct.unpack(">Q", data[at + 8 : at + 16])[0], 16
        size = size or end - at
        if size < skipped or at + size > end:
            raise Broken("the file is not whole")
        if name in _FIRST_PARTS:
            yield from _places(data, at + skipped, at + size)
        elif name in _PLACES and skipped == 8:
            yield at, at + size
        at += size
