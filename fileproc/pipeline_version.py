"""What a content was made with: extractor, chunks and model."""

from __future__ import annotations

import hashlib

from fileproc import embedding, languages
from fileproc.models import Batch

EXTRACTOR = 1
"""To be raised when the same bytes would yield another text."""


def of(batch: Batch) -> str:
    """Return the version of the pipeline for a batch, as it is set up now."""
    size, overlap = embedding.chunk_size(batch.chunk_tokens, batch.chunk_overlap)
    parts: tuple[object, ...] = (EXTRACTOR, size, overlap, embedding.model())
    if batch.language != languages.DEFAULT:
        parts += (batch.language,)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
