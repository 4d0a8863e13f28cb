"""Folders of a manifest: checked as a whole, then found or made, parents first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fileproc.errors import Refused
from fileproc.models import Folder
from fileproc.names import name_problem, path_problem

FOLDERS_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Announced:
    """A folder of a manifest; its parent is another one, by its temporary id."""

    temp_id: str
    name: str
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, with the names that lead to it."""

    folder: Folder
    path: str


def make(owner: str, announced: Sequence[Announced]) -> dict[str, Place]:
    """Return the folders by their temporary ids, in the caller's transaction; raise Refused."""
    levels = _levels(announced)
    found: dict[str, Place] = {}
    for level in levels:
        parents = {one.parent: found[one.parent].folder.pk if one.parent else None for one in level}
        wanted = [
            Folder(owner=owner, name=one.name, parent_id=parents[one.parent]) for one in level
        ]
        Folder.objects.bulk_create(wanted, ignore_conflicts=True)
        rows = Folder.objects.filter(owner=owner, name__in=[one.name for one in level])
        known = {(row.parent_id, row.name): row for row in rows}
        for one in level:
            above = f"{found[one.parent].path}/" if one.parent else ""
            path = above + one.name
            if problem := path_problem(path):
                raise _wrong(f"the path of {one.temp_id!r:.100} {problem}")
            found[one.temp_id] = Place(known[parents[one.parent], one.name], path)
    return found


def _levels(announced: Sequence[Announced]) -> list[list[Announced]]:
    """Return the folders level by level, those at the top first."""
    if len(announced) > FOLDERS_LIMIT:
        raise _wrong(f"must have at most {FOLDERS_LIMIT} folders")
    by_id: Mapping[str, Announced] = {one.temp_id: one for one in announced}
    for one in announced:
        if not one.temp_id:
            raise _wrong("each folder must have a tempId")
        problem = name_problem(one.name)
        if one.name in (".", "..") or "/" in one.name:
            problem = "must be a name, not a path"
        if problem:
            raise _wrong(f"the name of {one.temp_id!r:.100} {problem}")
        if one.parent and one.parent not in by_id:
            raise _wrong(f"the parent of {one.temp_id!r:.100} is no folder of the manifest")
    levels: list[list[Announced]] = []
    done, left = {""}, list(announced)
    while left:
        level = [one for one in left if one.parent in done]
        if not level:
            raise _wrong("some folders contain each other")
        levels.append(level)
        left = [one for one in left if one.parent not in done]
        done |= {one.temp_id for one in level}
    return levels


def _wrong(message: str) -> Refused:
    return Refused("INVALID_MANIFEST", message, "folders")
