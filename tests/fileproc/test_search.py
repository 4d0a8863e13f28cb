"""Searches among many chunks: which are found, and that indexes find them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from fileproc import embedding
from fileproc.indexing import postgres
from fileproc.models import Batch, Chunk, Content, File
from fileproc.services import search

pytestmark = pytest.mark.django_db
DOCUMENTS = 100
OWNER, SMALL = "user:1", "user:2"


def fill(owner: str, *texts: str) -> File:
    """A document that is ready, with a chunk for each text."""
    batch = Batch.objects.create(owner=owner, file_count=1, expires_at=timezone.now())
    number = Content.objects.count()
    content = Content.objects.create(
        owner=owner, sha256=f"{number:064}", pipeline="tests", is_ready=True, text="x"
    )
    Chunk.objects.bulk_create(
        Chunk(content=content, number=n, text=text, start=0, end=1, tokens=9, sha256="0")
        for n, text in enumerate(texts)
    )
    return File.objects.create(
        batch=batch, owner=owner, name=f"{number}.txt", size=1, status="ready", content=content,
        blob_key=f"tests/{number}",
    )  # fmt: skip


def test_a_rare_word_is_found_however_many_chunks_have_the_common_ones() -> None:
    fill(OWNER, *[f"The lamp and its oil, number {n}." for n in range(4000)])
    rare = fill(OWNER, *["A zebra beside the lamp."] * 3)
    fill("user:2", "A zebra beside the lamp and its oil.")
    for words in ("lamp zebra", "zebra oil storm", "which lamp has a zebra for its oil?"):
        best = search.search(OWNER, words, mode="text", limit=50).hits
        assert {hit.file_id for hit in best[:3]} == {rare.pk}, words
        assert len(best) == 50


def test_new_chunks_with_all_words_but_one_are_found_among_many_old_ones() -> None:
    """None has every word, and each word is in far more chunks than are ranked."""
    for word in ("lamp", "oil", "wick"):
        fill(OWNER, *[f"A {word}, number {n}, and much else." for n in range(1000)])
    new = fill(OWNER, "The oil of the lamp.", "The wick of the lamp.")
    first = search.search(OWNER, "storm oil lamp", mode="text").hits[0]
    assert (first.file_id, first.text) == (new.pk, "The oil of the lamp.")
    [first, second, *_] = search.search(OWNER, "oil lamp wick", mode="text").hits
    assert {first.file_id, second.file_id} == {new.pk}


@pytest.mark.parametrize(
    "words", ["the", "& | !", "lamp's (oil) <-> 'wick' :*", "lamp\\ 'x", "lamp " * 150, "%s"]
)
def test_any_text_may_be_asked_for(words: str) -> None:
    fill(OWNER, "The lamp, its oil and its wick.")
    hits = search.search(OWNER, words, mode="text").hits
    assert len(hits) == ("lamp" in words)


def plan(statement: str, before: str = "SELECT", owner: str = OWNER) -> str:
    given: dict[str, Any] = {
        "owner": owner, "words": "the lamp of chapter 17", "batch": None, "type": "",
        "metadata": None, "folders": None, "languages": ["english"],
        "ranked": 600, "share": 300, "share_of_any": 6000, "candidates": search.CANDIDATES,
        "vector": f"[{','.join(['0.05'] * embedding.DIMENSIONS)}]",
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(before)
        cursor.execute(f"EXPLAIN {statement}", given)
        return "\n".join(row for (row,) in cursor.fetchall())


@pytest.fixture
def many() -> None:
    """Documents of a diligent user, and one of somebody else."""
    for n in range(DOCUMENTS):
        fill(OWNER, f"The lamp, part {n}.")
    fill(SMALL, "The lamp of chapter 17", "and its oil")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fileproc_chunk "
            '(content_id, number, text, start, "end", headings, tokens, sha256, language) '
            "SELECT id, n, 'The lamp of chapter ' || n || repeat(' and so on', 60), 0, 1, '[]', 9, "
            "'0', 'english' "
            "FROM fileproc_content, generate_series(1, 100) n WHERE owner = %s",
            [OWNER],
        )
        cursor.execute("ANALYZE fileproc_chunk, fileproc_file, fileproc_content")


def test_words_are_looked_up_in_their_index(many: None) -> None:
    used = plan(search._BY_TEXT)
    assert "fileproc_chunk_words" in used and "Seq Scan on fileproc_chunk" not in used
    # The documents of an owner with few are read instead, whatever others have.
    small = plan(search._BY_TEXT, owner=SMALL)
    assert "fileproc_chunk_content" in small and "Seq Scan on fileproc_chunk" not in small
    [best, *_] = search.search(OWNER, "chapter 17", mode="text").hits
    assert best.text.startswith("The lamp of chapter 17 ")


def test_vectors_are_looked_up_in_their_index(model: None, many: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {postgres.TABLE} SELECT id, %s, "  # noqa: S608 - a constant
            "array_fill(0.01 + 0.001 * (id %% 97), ARRAY[%s])::halfvec "
            "FROM fileproc_chunk WHERE number <= 30",
            [OWNER, embedding.DIMENSIONS],
        )
        cursor.execute(f"ANALYZE {postgres.TABLE}")
    used = plan(postgres.by_vector(postgres.TABLE), postgres.ITERATIVE)
    assert f"{postgres.TABLE}_near" in used and f"Seq Scan on {postgres.TABLE}" not in used
