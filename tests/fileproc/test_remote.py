"""Models of other hosts: batches, refusals, limits, outages, and keys that nobody reads."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from fileproc import config, embedding
from fileproc.indexing import postgres
from fileproc.models import CachedVector, Content, File, StageRun
from fileproc.services import search
from jobs.models import Attempt, Job
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.fileproc import documents
from tests.fileproc.conftest import process, upload
from tests.fileproc.provider import KEY, POISON, Provider, running

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]


def use(settings: Any, url: str, **others: Any) -> None:
    settings.FILEPROC = {
        "EMBEDDER": "openai", "EMBEDDER_URL": f"{url}/v1", "EMBEDDER_KEY": KEY,
        "EMBEDDER_DIMENSIONS": 8, **others,
    }  # fmt: skip
    assert postgres.create() == ""


@pytest.fixture
def url(settings: Any, model: None) -> Iterator[str]:
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
    with running() as found:
        use(settings, found)
        yield found


def statuses() -> set[str]:
    return set(File.objects.values_list("status", flat=True))


def test_documents_are_embedded_in_batches_and_found_by_meaning(url: str) -> None:
    many = " ".join(f"Sentence number {n} speaks of a lamp and of oil." for n in range(2000))
    upload(("long.txt", many.encode()), ("other.txt", b"Nobody rows to the island in fog."))
    process()
    assert statuses() == {"ready"}
    path, texts, rest = max(Provider.calls, key=lambda one: len(one[1]))
    assert path == "/v1/embeddings" and 1 < len(texts) <= 128
    assert rest == {
        "model": "text-embedding-3-small", "encoding_format": "float", "dimensions": 8,
    }  # fmt: skip
    found = search.search("user:1", "lamp", mode="vector", limit=3)
    assert found.mode == "vector" and {hit.file_name for hit in found.hits} == {"long.txt"}
    assert search.search("user:1", "fog").mode == "hybrid"
    assert set(Content.objects.values_list("model", flat=True)) == {
        "openai/text-embedding-3-small/8"
    }


def test_azure_is_called_by_deployment_and_with_its_own_header(url: str, settings: Any) -> None:
    use(settings, url, EMBEDDER="azure", EMBEDDER_URL=url, EMBEDDER_MODEL="papers")
    upload(("a.md", documents.MARKDOWN))
    process()
    assert statuses() == {"ready"}
    [(path, _, rest), *_] = Provider.calls
    assert path == "/openai/deployments/papers/embeddings?api-version=2024-10-21"
    assert rest == {"encoding_format": "float"}


def test_a_call_that_is_refused_as_too_large_is_made_in_halves(url: str) -> None:
    Provider.most = 3
    text = "".join(f"# Lamp {n}\n\nIt burns.\n\n" for n in range(10))
    upload(("a.md", text.encode()))
    process()
    assert statuses() == {"ready"}
    assert CachedVector.objects.count() == 10


def test_a_text_that_the_model_refuses_fails_its_file_alone(url: str) -> None:
    bad = f"# Good\n\nA lamp.\n\n# Bad\n\nThis is {POISON}.\n"
    upload(("good.md", documents.MARKDOWN), ("bad.md", bad.encode()))
    process()
    ended = dict(File.objects.values_list("name", "status"))
    assert ended == {"good.md": "ready", "bad.md": "failed"}
    failed = File.objects.get(name="bad.md")
    assert failed.error is not None and failed.error["code"] == "EMBEDDER_REFUSED"
    assert emitted("jobs.circuit.opened") == []


def test_too_many_calls_close_the_meter_for_as_long_as_is_asked(url: str) -> None:
    Provider.answers = [(429, {"Retry-After": "300"}, {"error": "slow down"})]
    with freeze_clock() as clock:
        upload(*[(f"{n}.md", f"# Lamp {n}".encode()) for n in range(3)])
        for _ in range(10):
            run_jobs()
            clock.tick(20)
        assert statuses() == {"embedding"} and len(Provider.calls) == 1
        assert Job.objects.filter(failures__gt=0).count() == 0
        for _ in range(12):
            clock.tick(20)
            run_jobs()
    assert statuses() == {"ready"}
    assert set(StageRun.objects.values_list("attempts", flat=True)) == {1}


OUTAGES: dict[str, tuple[int, dict[str, str], Any]] = {
    "wrong key": (401, {}, {"error": "x"}), "no model": (404, {}, {"error": "x"}),
    "broken": (500, {}, {"error": "x"}), "maintenance": (503, {}, {}),
    "no vectors": (200, {}, {"data": []}), "no JSON object": (200, {}, ["x"]),
    "too short": (200, {}, {"data": [{"index": 0, "embedding": [0.1] * 7}]}),
    "no numbers": (200, {}, {"data": [{"index": 0, "embedding": [None] * 8}]}),
    "infinite": (200, {}, {"data": [{"index": 0, "embedding": [1e300] * 8}]}),
    "twice": (200, {}, {"data": [{"index": 0, "embedding": [0.1] * 8}] * 2}),
}  # fmt: skip


@pytest.mark.parametrize("outage", OUTAGES)
def test_files_wait_out_an_outage_or_a_wrong_setting(url: str, outage: str) -> None:
    Provider.answers = [OUTAGES[outage]] * 3
    with freeze_clock() as clock:
        upload(*[(f"{n}.md", f"# Lamp {n}".encode()) for n in range(2)])
        run_jobs()
        clock.tick(5)
        run_jobs()
        assert statuses() == {"embedding"}
        for _ in range(10):
            clock.tick(20)
            run_jobs()
    assert statuses() == {"ready"}
    assert Job.objects.filter(failures__gt=0).count() == 0
    assert [one.key for one in emitted("jobs.circuit.opened")] == ["circuit:fileproc.embedder"]


def test_a_silent_model_leaves_a_search_by_words(url: str, monkeypatch: Any) -> None:
    upload(("a.md", documents.MARKDOWN))
    process()
    monkeypatch.setattr(embedding, "PATIENCE", 0.2)
    Provider.pause = 2.0
    assert search.search("user:1", "lighthouse").mode == "text"
    Provider.pause = 0.0
    assert search.search("user:1", "lighthouse").mode == "hybrid"


def test_neither_the_key_nor_a_text_is_written_down(url: str, caplog: Any, capsys: Any) -> None:
    caplog.set_level(logging.DEBUG)
    Provider.answers = [(500, {}, {"error": f"{KEY} cannot embed canary"})] * 2
    upload(("a.md", b"# Lamp\n\ncanary"))
    with freeze_clock() as clock:
        for _ in range(4):
            run_jobs()
            clock.tick(40)
    assert statuses() == {"ready"}
    call_command("fileproc", "check")
    Provider.answers = [(400, {}, {"error": f"{KEY} cannot embed canary"})] * 3
    upload(("b.md", b"# Lamp\n\ncanary again"))
    process()
    assert Attempt.objects.exists()
    attempts = [(one.message, one.traceback, one.lines) for one in Attempt.objects.all()]
    written = caplog.text + capsys.readouterr().out + repr(attempts)
    written += repr(config.settings()) + json.dumps([one.payload for one in emitted()])
    assert KEY not in written and "canary" not in written


def test_a_table_that_is_missing_holds_files_back_until_it_is_made(url: str, settings: Any) -> None:
    settings.FILEPROC = {**settings.FILEPROC, "EMBEDDER_DIMENSIONS": 9}
    Provider.dimensions = 9
    with freeze_clock() as clock:
        upload(("a.md", documents.MARKDOWN))
        for _ in range(3):
            run_jobs()
            clock.tick(20)
        assert statuses() == {"embedding"}
        assert search.search("user:1", "lighthouse").mode == "text"
        call_command("fileproc", "check")
        for _ in range(3):
            run_jobs()
            clock.tick(20)
    assert statuses() == {"ready"}
    assert search.search("user:1", "lighthouse").mode == "hybrid"


def reindexed() -> Any:
    out = io.StringIO()
    call_command("fileproc", "reindex", "--json", stdout=out)
    return json.loads(out.getvalue())


def test_a_change_of_model_never_loses_a_hit(url: str, settings: Any) -> None:
    remote = settings.FILEPROC
    settings.FILEPROC = {"EMBEDDER": "minilm"}
    [file] = upload(("a.md", documents.MARKDOWN))
    process()

    def found(mode: str) -> set[str]:
        hits = search.search("user:1", "who repairs the lamp?", mode=mode).hits
        return {hit.file_name for hit in hits}

    settings.FILEPROC = remote
    assert found("vector") == found("text") == {"a.md"}
    upload(("b.md", b"# Lamp\n\nThe keeper repairs the lamp at night."))
    process()
    assert found("vector") == found("hybrid") == {"a.md", "b.md"}
    assert reindexed() == {"begun": 1, "skipped": 0, "failed": 0}
    for queue in ("file-extract", "file-chunk", "file-embed", "batch-completion"):
        run_jobs([queue])
        assert found("vector") == found("hybrid") == {"a.md", "b.md"}
    run_jobs()
    assert set(Content.objects.values_list("model", flat=True)) == {
        "openai/text-embedding-3-small/8"
    }
    assert found("vector") == {"a.md", "b.md"}
    assert reindexed() == {"begun": 0, "skipped": 0, "failed": 0}
    stages = StageRun.objects.filter(file=file).order_by("pk").values_list("stage", flat=True)
    assert list(stages) == ["extract", "chunk", "embed", "chunk", "embed"], "it was read once"
