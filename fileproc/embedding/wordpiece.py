"""The tokenizer of BERT (uncased), which MiniLM was trained with."""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

LONGEST_WORD = 100
CACHE_LIMIT = 100_000
_CJK = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece:
    """Turns text into the numbers of a vocabulary."""

    def __init__(self, vocabulary: Path) -> None:
        lines = vocabulary.read_text(encoding="utf-8").split("\n")
        self._numbers = {word: n for n, word in enumerate(lines) if word}
        self._unknown = self._numbers["[UNK]"]
        self._begin, self._end = self._numbers["[CLS]"], self._numbers["[SEP]"]
        self._cache: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        """Return the tokens of the text."""
        found: list[int] = []
        for word in text.split():
            known = self._cache.get(word)
            if known is None:
                known = [n for part in _parts(word) for n in self._pieces(part)]
                if len(self._cache) < CACHE_LIMIT and len(word) <= LONGEST_WORD:
                    self._cache[word] = known
            found += known
        return found

    def count(self, text: str) -> int:
        """Return the number of tokens.

        A long run of junk is a single unknown token; it counts by its length all the same.
        """
        return max(len(self.ids(text)), -(-len(text) // 8))

    def encode(self, text: str, limit: int = 256) -> list[int]:
        """Return the tokens as the model takes them, up to its limit."""
        return [self._begin, *self.ids(text)[: limit - 2], self._end]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        found, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                if piece in self._numbers:
                    break
            else:
                return [self._unknown]
            found.append(self._numbers[piece])
            start = end
        return found


def _parts(word: str) -> list[str]:
    """Return the word in lower case without accents, cut at punctuation and ideographs."""
    found, current = [], ""
    for letter in unicodedata.normalize("NFD", word):
        category = unicodedata.category(letter)
        if category == "Mn" or letter in "\x00\ufffd" or category[0] == "C":
            continue
        for small in letter.lower():
            if unicodedata.category(small) == "Mn":
                continue
            if _stands_alone(small):
                found += [current, small] if current else [small]
                current = ""
            else:
                current += small
    return [*found, current] if current else found


def _stands_alone(letter: str) -> bool:
    number = ord(letter)
    if number < 128:
        return 33 <= number <= 126 and not letter.isalnum()
    return unicodedata.category(letter)[0] == "P" or any(a <= number <= b for a, b in _CJK)


@cache
def tokenizer() -> WordPiece:
    """Return the tokenizer; its vocabulary is read once per process."""
    return WordPiece(Path(__file__).with_name("vocab.txt"))
