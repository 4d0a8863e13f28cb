"""Search by words and by meaning, in the documents of one owner."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q

import jobs
from fileproc import embedding, indexing, wanted
from fileproc.errors import Refused
from fileproc.indexing import postgres
from fileproc.languages import CONFIGURATIONS
from fileproc.models import Batch, Chunk, Content

MODES = ("hybrid", "vector", "text")
QUERY_LIMIT = 1000
CANDIDATES = 60
RANKED, RANKED_OF_ANY, LEAST_RANKED = 600, 12_000, 20
"""Chunks that a search by words ranks at most, as ranking takes most of the time, and how many of
each word at least. Those with all words come first; if there are fewer, those with all but one, and
then those with any: these are more, since a question in other words than the document's has few
chances, but of a word that every other chunk has, some are enough.
"""
ALL_BUT_ONE = range(3, 9)
"""How many words a question has for which chunks with all but one are looked up."""
RRF = 10
WEIGHTS = {"vector": 1.0, "text": 0.5}
SNIPPET = 400
NEIGHBOURS = 5


def _level(level: int, share: str) -> str:
    """Return the chunks of a level, as many of each of its parts as are to be ranked.

    They are numbered: for a LIMIT, the planner would read the table until there are enough of
    them, and a rare word has too few.
    """
    return f"""
    SELECT DISTINCT near.id FROM parts{level} AS parts, LATERAL (
      SELECT c.id, row_number() OVER () AS place FROM fileproc_chunk c
      WHERE c.words @@ part AND c.language = parts.language AND EXISTS ({wanted.SEEN})
    ) AS near WHERE place <= {share}
    """  # noqa: S608 - nothing of a request is in it


_BY_TEXT = f"""
WITH asked AS MATERIALIZED (
  SELECT language, terms, string_to_array(terms::text, ' & ') AS pieces
  FROM unnest(%(languages)s::regconfig[]) AS language,
    LATERAL plainto_tsquery(language, %(words)s) AS terms
), parts1 AS MATERIALIZED (
  SELECT language, terms AS part FROM asked
), near1 AS MATERIALIZED ({_level(1, "%(ranked)s")}), parts2 AS MATERIALIZED (
  SELECT language, array_to_string(pieces[: place - 1] || pieces[place + 1 :], ' & ')::tsquery
    AS part
  FROM asked, generate_series(1, cardinality(pieces)) AS place
  WHERE cardinality(pieces) BETWEEN {ALL_BUT_ONE[0]} AND {ALL_BUT_ONE[-1]}
    AND (SELECT count(*) FROM near1) < %(candidates)s
), near2 AS MATERIALIZED ({_level(2, "%(share)s")}), parts3 AS MATERIALIZED (
  SELECT language, piece::tsquery AS part
  FROM asked, unnest(pieces) AS piece
  WHERE (SELECT count(*) FROM near1) + (SELECT count(*) FROM near2) < %(candidates)s
), near3 AS MATERIALIZED ({_level(3, "%(share_of_any)s")}), picked AS (
  SELECT id FROM near1 UNION SELECT id FROM near2 UNION SELECT id FROM near3
)
SELECT c.id, ts_rank(c.words, replace(terms::text, ' & ', ' | ')::tsquery) AS score
FROM picked JOIN fileproc_chunk c USING (id) JOIN asked ON asked.language = c.language
ORDER BY score DESC, length(c.words), c.id LIMIT %(candidates)s
"""  # noqa: S608 - nothing of a request is in it


_INSIDE = """
WITH RECURSIVE inside AS (
  SELECT id FROM fileproc_folder WHERE id = %(folder)s AND owner = %(owner)s
  UNION ALL SELECT f.id FROM fileproc_folder f JOIN inside ON f.parent_id = inside.id
)
SELECT id FROM inside
"""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A chunk before or after a hit, in the same document."""

    number: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A piece of a document that answers the question."""

    file_id: UUID
    file_name: str
    batch_id: UUID
    type: str
    score: float
    text: str
    pages: tuple[int, int] | None
    headings: list[str]
    start: int
    end: int
    number: int
    neighbours: list[Neighbour] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """The hits, best first, and how they were found."""

    mode: str
    hits: list[Hit]


def search(
    owner: str,
    query: str,
    *,
    mode: str = "hybrid",
    batch_id: UUID | None = None,
    folder_id: UUID | None = None,
    type: str = "",
    metadata: str | None = None,
    limit: int = 10,
    min_score: float = 0.0,
    neighbours: int = 0,
) -> Found:
    """Search an owner's documents; where there are no vectors, by words alone.

    ``folder_id`` is a folder with those inside it. Each hit comes with ``neighbours`` chunks
    before it, and as many after it.
    """
    query = query.replace("\x00", " ").strip()
    if not query or len(query) > QUERY_LIMIT:
        raise Refused("INVALID_REQUEST", f"must have 1 to {QUERY_LIMIT} characters", "q")
    if mode not in MODES:
        raise Refused("INVALID_REQUEST", f"must be one of {', '.join(MODES)}", "mode")
    count = len(set(query.split()))
    given: dict[str, Any] = {
        "owner": owner, "words": query, "batch": batch_id, "type": type, "metadata": metadata,
        "folders": _inside(owner, folder_id), "languages": _languages(owner),
        "candidates": max(CANDIDATES, limit * 3),
        "ranked": RANKED, "share": max(LEAST_RANKED, RANKED // count),
        "share_of_any": max(LEAST_RANKED, RANKED_OF_ANY // count),
    }  # fmt: skip
    ranked = _near(owner, query, given) if mode != "text" else {}
    used = mode if ranked else "text"
    ranked = {name: rows for name, rows in ranked.items() if rows}
    if used != "vector":
        ranked["text"] = wanted.rows(_BY_TEXT, given)
    scores = _fused(ranked) if used == "hybrid" or len(ranked) > 1 else dict(*ranked.values())
    best = sorted(scores.items(), key=lambda one: -one[1])
    best = [(pk, score) for pk, score in best if score >= min_score][:limit]
    return Found(used, _surrounded(_hits(best, given), neighbours))


def _inside(owner: str, folder_id: UUID | None) -> list[UUID] | None:
    """Return the owner's folder and all that are in it; None if none was asked for."""
    if folder_id is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(_INSIDE, {"folder": folder_id, "owner": owner})
        return [pk for (pk,) in cursor.fetchall()]


def _languages(owner: str) -> list[str]:
    codes = Batch.objects.filter(owner=owner).values_list("language", flat=True).distinct()
    return [CONFIGURATIONS[code] for code in codes.order_by()]


def _near(
    owner: str, query: str, given: dict[str, Any]
) -> dict[str, list[tuple[int, float]]]:  # fmt: skip
    """Return the chunks that are near to the question, by the places in which they were found.

    There are none where the model or the index in use does not answer. Documents that MiniLM has
    embedded before the settings named another model, or that were indexed in PostgreSQL before
    they named another index, are still found there.
    """
    used, index = embedding.current(), indexing.current()
    if used is None or not index.exists(used):
        return {}
    vector = embedding.of_question(used, query)
    if vector is None:
        return {}
    try:
        found = {"index": index.near(used, vector, given)}
    except (indexing.Unavailable, jobs.effects.CircuitOpen):
        return {}
    for model in _former(owner, used):
        question = vector if model == used else embedding.of_question(model, query)
        if question is not None:
            found[model.table] = postgres.near(model, question, given)
    return found


def _former(owner: str, used: embedding.Model) -> list[embedding.Model]:
    """Return the models by which documents of the owner are indexed in PostgreSQL from before."""
    names = {used.name} if indexing.current() is not postgres else set()
    if used.is_remote and embedding.is_installed():
        names.add(embedding.MINILM)
    ready = Content.objects.filter(owner=owner, is_ready=True, index_key="")
    found = [embedding.named(name) for name in names if ready.filter(model=name).exists()]
    return [model for model in found if postgres.exists(model)]


def _fused(ranked: dict[str, list[tuple[int, float]]]) -> dict[int, float]:
    """Fuse the lists by the ranks of their members; the best possible score is 1."""
    most = sum(WEIGHTS.values()) / (RRF + 1)  # a chunk has one vector
    scores: dict[int, float] = {}
    for name, rows in ranked.items():
        for rank, (pk, _) in enumerate(rows, 1):
            weight = WEIGHTS["text" if name == "text" else "vector"]
            scores[pk] = scores.get(pk, 0.0) + weight / (RRF + rank) / most
    return scores


def _hits(best: Sequence[tuple[int, float]], given: dict[str, Any]) -> list[tuple[int, Hit]]:
    """Return the chunks with the newest file that has them, and their contents."""
    statement = f"""
    SELECT DISTINCT ON (c.id) c.id, c.content_id, f.id, f.name, f.batch_id, f.type, c.text,
      c.first_page, c.last_page, c.headings, c.start, c."end", c.number
    FROM fileproc_chunk c JOIN fileproc_file f ON f.content_id = c.content_id
    WHERE c.id = ANY(%(ids)s) AND {wanted.WANTED}
    ORDER BY c.id, f.created_at DESC
    """  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, {**given, "ids": [pk for pk, _ in best]})
        rows = {row[0]: row[1:] for row in cursor.fetchall()}
    hits = []
    for pk, score in best:
        if pk in rows:  # else it was deleted meanwhile
            content, file, name, batch, kind, text, first, last, headings, *place = rows[pk]
            path = json.loads(headings) if isinstance(headings, str) else headings
            pages = (first, last) if first else None
            hit = Hit(file, name, batch, kind, round(score, 4), text, pages, path, *place)
            hits.append((content, hit))
    return hits


def _surrounded(hits: Sequence[tuple[int, Hit]], count: int) -> list[Hit]:
    """Return the hits with that many chunks before and after each."""
    if not count or not hits:
        return [hit for _, hit in hits]
    near = Q()
    for content, hit in hits:
        around = range(max(hit.number - count, 0), hit.number + count + 1)
        near |= Q(content=content, number__in=list(around))
    found: dict[int, list[Neighbour]] = {}
    rows = Chunk.objects.filter(near).order_by("number")
    for content, number, text, start, end in rows.values_list(
        "content", "number", "text", "start", "end"
    ):
        found.setdefault(content, []).append(Neighbour(number, text, start, end))
    return [
        replace(
            hit,
            neighbours=[
                one for one in found.get(content, ()) if 0 < abs(one.number - hit.number) <= count
            ],
        )
        for content, hit in hits
    ]
