"""What a file is, by its bytes: its type, its dimensions and its length. Nothing is decoded."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

_BOXES_OF_BOXES = {b"moov", b"trak"}
_MOST = 10_000
"""At most so many segments or boxes are looked at."""


class Broken(Exception):
    """The file is no image or video that channels take, or is not whole."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a file is."""

    content_type: str
    kind: str
    width: int = 0
    height: int = 0
    seconds: float = 0


def sniff(file: BinaryIO) -> Found:
    """Return what the file is; raise Broken."""
    head = file.read(32)
    try:
        if head.startswith(b"\xff\xd8\xff"):
            return _jpeg(file)
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return _png(file, head)
        if head.startswith((b"GIF87a", b"GIF89a")):
            width, height = struct.unpack("<HH", head[6:10])
            return _image("image/gif", width, height)
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return _webp(file, head)
        if head[4:8] == b"ftyp":
            return _video(file, head)
    except (struct.error, IndexError):
        raise Broken("the file is not whole") from None
    raise Broken("the file is neither an image (JPEG, PNG, GIF, WebP) nor a video (MP4, MOV)")


def _image(content_type: str, width: int, height: int) -> Found:
    if not width or not height:
        raise Broken("the image has no size")
    return Found(content_type, "image", width, height)


def _end(file: BinaryIO, length: int) -> bytes:
    file.seek(0, os.SEEK_END)
    file.seek(max(file.tell() - length, 0))
    return file.read(length)


def _png(file: BinaryIO, head: bytes) -> Found:
    end = _end(file, 64)
    if head[12:16] != b"IHDR" or not 0 <= end.find(b"IEND") <= len(end) - 8:
        raise Broken("the file is not whole")
    width, height = struct.unpack(">II", head[16:24])
    return _image("image/png", width, height)


def _jpeg(file: BinaryIO) -> Found:
    if b"\xff\xd9" not in _end(file, 4096):
        raise Broken("the file is not whole")
    file.seek(2)
    for _ in range(_MOST):
        mark = file.read(2)
        if mark[0] != 0xFF:
            break
        length = struct.unpack(">H", file.read(2))[0]
        if 0xC0 <= mark[1] <= 0xCF and mark[1] not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", file.read(5)[1:])
            return _image("image/jpeg", width, height)
        if mark[1] == 0xDA or length < 2:
            break
        file.seek(length - 2, os.SEEK_CUR)
    raise Broken("the image has no size")


def _webp(file: BinaryIO, head: bytes) -> Found:
    file.seek(0, os.SEEK_END)
    if file.tell() < struct.unpack("<I", head[4:8])[0] + 8:
        raise Broken("the file is not whole")
    kind, data = head[12:16], head[20:32]
    if kind == b"VP8X":
        width = int.from_bytes(data[4:7], "little") + 1
        height = int.from_bytes(data[7:10], "little") + 1
    elif kind == b"VP8L":
        bits = struct.unpack("<I", data[1:5])[0]
        width, height = (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    elif kind == b"VP8 ":
        width, height = (size & 0x3FFF for size in struct.unpack("<HH", data[6:10]))
    else:
        raise Broken("the image has no size")
    return _image("image/webp", width, height)


def _video(file: BinaryIO, head: bytes) -> Found:
    width = height = 0
    seconds = 0.0
    file.seek(0, os.SEEK_END)
    seen = set()
    for name, data in _boxes(file, 0, file.tell()):
        seen.add(name)
        if name == b"mvhd":
            scale, length = struct.unpack(">IQ" if data[0] else ">II", _times(data))
            seconds = length / scale if scale else 0.0
        elif name == b"tkhd":
            across, down = struct.unpack(">II", data[-8:])
            width, height = max(width, across >> 16), max(height, down >> 16)
    if not seen >= {b"mvhd", b"mdat"}:
        raise Broken("the file is not whole")
    brand = "video/quicktime" if head[8:12] == b"qt  " else "video/mp4"
    return Found(brand, "video", width, height, seconds)


def _times(header: bytes) -> bytes:
    """Return time scale and length of a movie header, by its version."""
    return header[20:32] if header[0] else header[12:20]


def _boxes(file: BinaryIO, start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the small boxes of a video, and those within others; raise Broken if one is cut."""
    seen, todo = 0, [(start, end)]
    while todo:
        at, until = todo.pop()
        while at + 8 <= until:
            if (seen := seen + 1) > _MOST:
                raise Broken("the file has too many parts")
            file.seek(at)
            size, name = struct.unpack(">I4s", file.read(8))
            skipped = 8
            if size == 1:
                size, skipped = struct.unpack(">Q", file.read(8))[0], 16
            size = size or until - at
            if size < skipped or at + size > until:
                raise Broken("the file is not whole")
            if name in _BOXES_OF_BOXES:
                todo.append((at + skipped, at + size))
            elif name in (b"mvhd", b"tkhd"):
                yield name, file.read(min(size - skipped, 200))
            elif name == b"mdat":
                yield name, b""
            at += size
        if at != until:
            raise Broken("the file is not whole")
