"""Files that are to be uploaded: what is wrong with one, and which the owner has already."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db.models import Q

from fileproc import config, extraction
from fileproc.errors import Refused, message
from fileproc.models import File, FileStatus
from fileproc.names import name_problem, path_problem

SCOPES = {"ready": "storage", "registered": "upload", "uploaded": "upload"}
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class Announced:
    """A file that is to be uploaded."""

    name: str
    size: int
    path: str = ""
    modified: str = ""
    sha256: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    temp_id: str = ""
    parent: str = ""
    """The folder of the manifest, by its temporary id."""
    folder: UUID | None = None
    replaces: UUID | None = None
    """The file that is deleted at the moment in which this one is ready."""


def problem_of(one: Announced) -> Refused | None:
    """Return why a file cannot be taken."""
    if problem := name_problem(one.name) or path_problem(one.path):
        return Refused("INVALID_REQUEST", problem, "fileName")
    if problem := metadata_problem(one.metadata):
        return Refused("INVALID_REQUEST", problem, "metadata")
    if one.sha256 and not _SHA256.match(one.sha256):
        return Refused("INVALID_REQUEST", "must be 64 digits in lower-case hexadecimal",
                       "contentHash")  # fmt: skip
    if one.size <= 0:
        return Refused("EMPTY_FILE", "the file is empty", "fileSize")
    is_picture = ending(one.name) in extraction.PICTURES
    most = config.settings().FILE_BYTES
    most = min(most, config.PICTURE_BYTES) if is_picture else most
    if one.size > most:
        return Refused("FILE_TOO_LARGE", f"a file may have at most {most} bytes", "fileSize")
    if ending(one.name) not in extraction.ENDINGS:
        return Refused("UNSUPPORTED_TYPE", message("UNSUPPORTED_TYPE"), "fileName")
    return None


def metadata_problem(metadata: Mapping[str, Any]) -> str:
    """Return what is wrong with the metadata of a file; nothing if it is good."""
    text = json.dumps(metadata)
    if len(text) > config.METADATA_LIMIT:
        return "must have at most 4 KB"
    return "must not contain NUL" if "\\u0000" in text else ""


def duplicates(owner: str, announced: Sequence[Announced]) -> list[dict[str, str]]:
    """Return which of the files the owner has already: by content, or by name in a folder."""
    hashes = [one.sha256 for one in announced if one.sha256]
    names = [one.name for one in announced]
    known = File.objects.shown().exclude(status=FileStatus.FAILED).filter(owner=owner)
    rows = list(
        known.filter(Q(sha256__in=hashes) | Q(name__in=names)).values(
            "pk", "name", "path", "sha256", "status"
        )
    )
    duplicates = []
    by_hash: dict[str, list[Any]] = defaultdict(list)
    by_name: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for known_row in rows:
        by_hash[known_row["sha256"]].append(known_row)
        by_name[known_row["path"], known_row["name"]].append(known_row)
    for one in announced:
        others = (row for row in by_hash[one.sha256] if row["pk"] != one.replaces)
        same = next(others, None) if one.sha256 else None
        others = (row for row in by_name[one.path, one.name] if row["pk"] != one.replaces)
        named = next(others, None)
        if same or named:
            row = same or named
            assert row is not None  # noqa: S101 - one of the two
            kind = "name_and_content" if same and named else "content" if same else "name"
            scope = SCOPES.get(row["status"], "pipeline")
            duplicates.append({"tempId": one.temp_id, "fileName": one.name, "matchType": kind,
                         "scope": scope, "fileId": str(row["pk"])})  # fmt: skip
    return duplicates


def with_replaced(
    owner: str, announced: Sequence[Announced]
) -> tuple[list[Announced], dict[int, Refused]]:
    """Return the files, each with the place and metadata of the one that it replaces.

    What it names itself is kept. Those that cannot replace anything are refused, by their numbers.
    """
    wanted = [one.replaces for one in announced if one.replaces is not None]
    known = File.objects.shown().filter(owner=owner).in_bulk(wanted) if wanted else {}
    completed, refused, taken = [], dict[int, Refused](), set[UUID]()
    for number, one in enumerate(announced):
        old = known.get(one.replaces) if one.replaces is not None else None
        if one.replaces is not None and old is None:
            refused[number] = Refused("FILE_NOT_FOUND", "there is no such file", "replaceFileId")
        elif old is not None and old.pk in taken:
            problem = "another file of the manifest replaces it"
            refused[number] = Refused("INVALID_REQUEST", problem, "replaceFileId")
        elif old is not None:
            taken.add(old.pk)
            is_placed = one.path or one.folder is not None
            one = replace(
                one, path=one.path if is_placed else old.path,
                folder=one.folder if is_placed else old.folder_id,
                metadata=one.metadata or old.metadata,
            )  # fmt: skip
        completed.append(one)
    return completed, refused


def ending(name: str) -> str:
    """Return the ending of a name, in lower case."""
    return os.path.splitext(name.lower())[1]
