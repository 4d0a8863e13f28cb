"""Whether the right section is found: ``python -m benchmarks.relevance SDIST TITLES``.

The documents are the sections of Django's own documentation, without their titles. Questions are
the titles, and paraphrases that were written down before anything was measured. Prints the mean
reciprocal rank, of the first ten hits, by kind of question and mode of the search.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django

OWNER = "bench"
PROSE = ("topics/", "howto/", "intro/", "faq/")
"""Folders of guides: references and release notes name things rather than explain them."""
PARAPHRASES = Path(__file__).with_name("paraphrases.json")
HITS = 10
LEAST = 200
"""Characters of a section that answers a question by its title."""
_LINE = re.compile(r"([=\-~^\"`*#+])\1{2,}\s*\Z")
_ROLE = re.compile(r":[\w:-]+:`~?!?([^`<]+?)(?: <[^>]*>)?`")
MODES = ("text", "vector", "hybrid")

Sections = dict[tuple[str, str], str]
"""Text by file and title."""


def sections(sdist: Path) -> Sections:
    """Return the sections of the guides, without their titles."""
    found: Sections = {}
    with tarfile.open(sdist) as archive:
        for member in archive:
            _, _, path = member.name.partition("/docs/")
            file = archive.extractfile(member) if path.startswith(PROSE) else None
            if file is not None and path.endswith(".txt"):
                for title, text in _cut(file.read().decode()):
                    if text and (path, title) not in found:
                        found[path, title] = text
    return found


def _cut(text: str) -> Iterator[tuple[str, str]]:
    lines, title, body = text.splitlines(), "", list[str]()
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if _LINE.match(line):
            continue
        if line.strip() and not line.startswith((" ", "..")) and _is_line(below, line):
            yield title, "\n".join(body).strip()
            title, body = line.strip(), []
        else:
            body.append(line)
    yield title, "\n".join(body).strip()


def _is_line(below: str, title: str) -> bool:
    return bool(_LINE.match(below)) and len(below.strip()) >= len(title.strip())


def plain(title: str) -> str:
    """Return a title without its markup."""
    return _ROLE.sub(r"\1", title).replace("``", "").replace("\\", "").replace("*", "")


def titles(known: Sections, count: int) -> list[tuple[str, tuple[str, str]]]:
    """Return titles of several words that only one section has."""
    often = Counter(plain(title) for _, title in known)
    good = [
        (plain(key[1]), key)
        for key, text in sorted(known.items())
        if often[plain(key[1])] == 1 and len(plain(key[1]).split()) > 1 and len(text) >= LEAST
    ]
    return random.Random(52).sample(good, min(count, len(good)))


def paraphrases(known: Sections) -> list[tuple[str, tuple[str, str]]]:
    """Return the questions that were written down; raise if a section is not there."""
    found = [(q, (path, title)) for q, path, title in json.loads(PARAPHRASES.read_text())]
    missing = [place for _, place in found if place not in known]
    if missing:
        raise RuntimeError(f"there is no such section: {missing}")
    return found


def store(known: Sections) -> dict[Any, tuple[str, str]]:
    """Cut, embed and index the sections; return them by the ids of their files."""
    from django.utils import timezone

    from fileproc import chunking, embedding
    from fileproc.indexing import postgres
    from fileproc.models import Batch, Chunk, Content, File

    model = embedding.current()
    if model is None:
        raise RuntimeError("there is no model: install the extra `embed`, and pgvector")
    size, overlap = embedding.chunk_size()
    batch = Batch.objects.create(owner=OWNER, file_count=1, expires_at=timezone.now())
    found = {}
    for number, (key, text) in enumerate(known.items()):
        content = Content.objects.create(
            owner=OWNER, sha256=f"{number:064}", pipeline="bench", is_ready=True, text="x",
            model=model.name,
        )  # fmt: skip
        file = File.objects.create(
            batch=batch, owner=OWNER, name=f"{number}.txt", size=1, status="ready",
            content=content, blob_key=f"fileproc/bench/{number}",
        )  # fmt: skip
        pieces = chunking.chunk(text, size=size, overlap=overlap, count=embedding.tokenizer().count)
        chunks = Chunk.objects.bulk_create(
            Chunk(content=content, number=n, text=one.text, start=one.start, end=one.end,
                  tokens=one.tokens, sha256="0")
            for n, one in enumerate(pieces)
        )  # fmt: skip
        made = embedding.embed([one.text for one in chunks])
        postgres.write(
            model, OWNER,
            [(one.pk, one.number, vector) for one, vector in zip(chunks, made, strict=True)],
        )  # fmt: skip
        found[file.pk] = key
    return found


def rank(question: str, wanted: tuple[str, str], mode: str, places: dict[Any, Any]) -> float:
    """Return the reciprocal rank of the section among the first hits; 0 if it is not there."""
    from fileproc.services.search import search

    found = search(OWNER, question, mode=mode, limit=HITS)
    if found.mode != mode:
        raise RuntimeError(f"asked by {mode}, answered by {found.mode}")
    keys = [places[hit.file_id] for hit in found.hits]
    return 1 / (keys.index(wanted) + 1) if wanted in keys else 0.0


def main(sdist: Path, count: int) -> dict[str, Any]:
    known = sections(sdist)
    questions = {"titles": titles(known, count), "paraphrases": paraphrases(known)}
    places = store(known)
    figures: dict[str, Any] = {"sections": len(known)}
    for kind, asked in questions.items():
        figures[kind] = {"questions": len(asked)} | {
            mode: round(sum(rank(q, place, mode, places) for q, place in asked) / len(asked), 4)
            for mode in MODES
        }
    return figures


if __name__ == "__main__":
    django.setup()
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
