"""Archives of documents, looked at before anything is unpacked."""

from __future__ import annotations

import zipfile
from typing import BinaryIO

from fileproc.parsers.text import Bomb, Encrypted

ENTRIES = 10_000
TOTAL = 300 * 1024**2
LARGE = 50 * 1024**2
RATIO = 100


def checked(file: BinaryIO) -> zipfile.ZipFile:
    """Return the archive; raise Bomb if its members are too many, too large or overlap."""
    archive = zipfile.ZipFile(file)
    members = archive.infolist()
    if len(members) > ENTRIES or sum(one.file_size for one in members) > TOTAL:
        raise Bomb
    end = 0
    for one in sorted(members, key=lambda member: member.header_offset):
        if one.flag_bits & 1:
            raise Encrypted
        if one.file_size > LARGE and one.file_size > RATIO * max(one.compress_size, 1):
            raise Bomb
        if one.header_offset < end:
            raise Bomb
        end = one.header_offset + one.compress_size
    return archive
