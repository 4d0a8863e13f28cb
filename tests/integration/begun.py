"""A fleet's processes note which attempts have begun, in a folder that the fleet reads.

A row says ``running`` from the claim on; its handler begins a moment later, and only then does
the death of its process count as a crash.
"""

import os
from pathlib import Path
from typing import Any
from uuid import UUID

from django.apps import AppConfig

FOLDER = "FLEET_BEGUN"


class Begun(AppConfig):
    """An attempt leaves a file once the board shows it."""

    name = "tests.integration.begun"
    label = "begun"

    def ready(self) -> None:
        from jobs.engine.board import Board

        begin, folder = Board.begin, Path(os.environ[FOLDER])

        def begin_and_note(
            board: Board,
            executor: int,
            slot: int,
            job_id: UUID,
            token: UUID,
            attempt: int,
            *others: Any,
        ) -> int:
            seq = begin(board, executor, slot, job_id, token, attempt, *others)
            note(folder, job_id, attempt).touch()
            return seq

        Board.begin = begin_and_note  # type: ignore[method-assign, assignment]


def note(folder: Path, job_id: UUID, attempt: int) -> Path:
    return folder / f"{job_id}.{attempt}"
