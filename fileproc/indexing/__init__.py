"""Where vectors are looked up: tables of PostgreSQL, or an index of Azure AI Search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jobs
from fileproc import config
from fileproc.embedding import Model
from fileproc.models import Content, File
from fileproc.payloads import Unindex

Rows = Sequence[tuple[int, int, bytes]]
"""Chunks: the primary key, the number in the document, and the vector of each."""
LATE = 900.0
"""Seconds after which nobody sends documents of a deleted file any more."""


class Unavailable(Exception):
    """The index cannot be used at the moment, through no fault of a file."""


breaker = jobs.breaker("fileproc.index", threshold=1, open_for=30, counts=Unavailable)
"""Holds back every file that is to be indexed by another host, until that answers again."""


class Index(Protocol):
    """What an index does; the modules of this package are indexes."""

    def place(self) -> str:
        """Return where the index is, as far as files must be processed again when it changes."""

    def exists(self, model: Model) -> bool:
        """Return whether vectors of the model can be stored."""

    def create(self) -> str:
        """Make what the model in use needs; return why that is not possible, if so."""

    def send(
        self, ctx: jobs.Context, file: File, content: Content, model: Model, rows: Rows
    ) -> str:
        """Store the vectors outside of the database; return how their keys begin there."""

    def write(self, model: Model, owner: str, rows: Rows) -> None:
        """Store the vectors in the caller's transaction, which makes the file ready."""

    def near(
        self, model: Model, vector: bytes, wanted: Mapping[str, Any]
    ) -> list[tuple[int, float]]:
        """Return the owner's chunks that are nearest to a vector, with their similarity.

        Raises Unavailable where the index does not answer soon.
        """


def current() -> Index:
    """Return the index in use."""
    from fileproc.indexing import azure, postgres

    return azure if config.settings().INDEX == "azure" else postgres


def forget(content: Content) -> None:
    """Let a job remove the documents of a content from another host, if it has some there.

    To be called in the transaction that lets go of the content. An attempt that still runs may
    send more of a content that is not ready, which is removed after the attempt.
    """
    if content.index_key:
        payload = Unindex(
            model=content.model, key=content.index_key, count=content.chunks.count()
        )  # fmt: skip
        jobs.enqueue(payload, tenant=content.owner, delay=0 if content.is_ready else LATE)
