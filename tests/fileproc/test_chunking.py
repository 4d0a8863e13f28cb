"""Chunks cover their source, whatever it is."""

from __future__ import annotations

import random
import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fileproc import chunking, embedding
from fileproc.errors import FileError

COUNT = embedding.tokenizer().count


def check(text: str, size: int, overlap: int, is_table: bool = False) -> list[chunking.Piece]:
    pieces = chunking.chunk(text, size=size, overlap=overlap, count=COUNT, is_table=is_table)
    covered = 0
    for piece in pieces:
        assert piece.text == text[piece.start : piece.end] and piece.text.strip()
        assert not text[covered : piece.start].strip()  # nothing but blanks is left out
        assert piece.end > covered
        covered = piece.end
        assert piece.tokens <= size * 1.5 + 8
    assert not text[covered:].strip()
    return pieces


@settings(max_examples=40)
@given(st.text(max_size=3000), st.integers(8, 60), st.booleans())
def test_chunks_cover_any_text(text: str, size: int, is_table: bool) -> None:
    check(text, size, size // 4, is_table)


NASTY = {
    "one letter": "a" * 300_000,
    "spaces": " " * 300_000 + "x",
    "lines": "\n" * 200_000 + "x",
    "ideographs": "这是一个用于测试的句子没有空格" * 10_000,
    "emoji": "😀🎉" * 60_000,
    "digits": ",".join(str(n * 7919) for n in range(40_000)),
    "base64": "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=300_000)),
    "words": " ".join(
        "".join(random.Random(n).choices(string.ascii_lowercase, k=7)) for n in range(30_000)
    ),
    "brackets": "([{" * 60_000,
}


@pytest.mark.parametrize("name", NASTY)
def test_nasty_texts_take_time_in_proportion(name: str) -> None:
    text = NASTY[name]
    began = time.process_time()
    try:
        check(text, 200, 30)
    except FileError as error:
        assert error.code == "LIMIT_EXCEEDED"
    assert time.process_time() - began < 12  # 0.3 MB; a quadratic one takes minutes


def test_headings_and_pages_are_cited() -> None:
    text = "# A\n\none two.\n\n## B\n\nthree four.\n\n# C\n\nfive."
    headings: list[list[int | str]] = [[0, 1, "A"]]
    headings += [[text.index("## B"), 2, "B"], [text.index("# C"), 1, "C"]]
    pages = [0, text.index("three"), text.index("five")]
    pieces = chunking.chunk(text, size=100, overlap=10, count=COUNT, headings=headings, pages=pages)
    assert [piece.headings for piece in pieces] == [("A",), ("A", "B"), ("C",)]
    assert [piece.pages for piece in pieces] == [(1, 1), (1, 2), (2, 3)]


def test_tables_are_cut_between_rows() -> None:
    text = "".join(f"row {n}\tvalue {n}\n" for n in range(200))
    pieces = check(text, 50, 0, is_table=True)
    assert len(pieces) > 5 and all(piece.text.endswith("\n") for piece in pieces)


def test_tokens_are_those_of_the_model() -> None:
    tokenizer = embedding.tokenizer()
    assert tokenizer.encode("Hello, World!") == [101, 7592, 1010, 2088, 999, 102]
    assert tokenizer.ids("Café") == tokenizer.ids("cafe")
    assert tokenizer.ids("unaffable") == [14477, 20961, 3468]
