"""What a content was made with: extractor, chunks and model."""

from __future__ import annotations

import hashlib

from fileproc import embedding, indexing, ocr
from fileproc.models import Batch, Stage

EXTRACTOR = 1
"""To be raised when the same bytes would yield another text."""


def of(batch: Batch) -> str:
    """Return the version of the pipeline for a batch, as it is set up now."""
    size, overlap = embedding.chunk_size(batch.chunk_tokens, batch.chunk_overlap)
    parts = {
        Stage.EXTRACT: (EXTRACTOR, batch.with_ocr and ocr.is_installed()),
        Stage.CHUNK: (size, overlap, batch.language),
        Stage.EMBED: (embedding.model(), place) if (place := _place()) else embedding.model(),
    }  # fmt: skip
    return "-".join(hashlib.sha256(repr(part).encode()).hexdigest()[:8] for part in parts.values())


def _place() -> str:
    return indexing.current().place() if embedding.model() else ""


def first_change(old: str, new: str) -> Stage | None:
    """Return the first stage that two versions do differently; None if there is none."""
    parts = zip(Stage, old.split("-"), new.split("-"), strict=False)
    return next((stage for stage, mine, other in parts if mine != other), None)
