"""Azure AI Search as the index: partial success, refusals, outages, owners, deletions."""

from __future__ import annotations

import io
import json
import logging
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fileproc import checks, config, indexing
from fileproc.embedding import MINILM, minilm, named
from fileproc.indexing import azure
from fileproc.models import Content, File, StageRun
from fileproc.services import batches, deleting, reprocessing, search
from jobs.models import Attempt, DeadLetter, Job
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.fileproc.conftest import process, upload
from tests.fileproc.search_service import KEY, Service, running

pytestmark = pytest.mark.django_db
NAME = "documents-minilm-384"
OWNER = "user:1"


def vector(text: str) -> bytes:
    """A vector by which texts about lamps are near to each other."""
    near = (1.0, 0.1) if "lamp" in text.lower() else (0.1, 1.0)
    return struct.pack("<384e", *near, *[0.001 * (len(text) % 7)] * 382)


@pytest.fixture
def service(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A service with an index for MiniLM, whose vectors are made up."""
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
    monkeypatch.setattr(minilm, "embed", lambda texts: [vector(text) for text in texts])
    monkeypatch.setattr(azure, "PAUSES", (0.0, 0.0, 0.0))
    with running() as url:
        settings.FILEPROC = {
            "EMBEDDER": "minilm", "INDEX": "azure", "INDEX_URL": url, "INDEX_KEY": f"{KEY}\n",
        }  # fmt: skip
        call_command("fileproc", "check", stdout=io.StringIO())
        Service.calls.clear()
        yield url


def statuses() -> set[str]:
    return set(File.objects.values_list("status", flat=True))


def stored() -> dict[str, dict[str, Any]]:
    return Service.documents[NAME]


def sent() -> list[list[dict[str, Any]]]:
    """The documents of each call that stored or deleted."""
    return [body["value"] for _, path, body in Service.calls if path.endswith("/docs/index")]


def lamps(count: int) -> bytes:
    return "".join(f"# Lamp {n}\n\nIt burns.\n\n" for n in range(count)).encode()


def found(words: str = "lamp", mode: str = "vector", **filters: Any) -> set[str]:
    hits = search.search(OWNER, words, mode=mode, limit=50, **filters)
    assert hits.mode == mode
    return {hit.file_name for hit in hits.hits}


def test_documents_are_indexed_without_their_text_and_found_by_meaning(service: str) -> None:
    [file, _] = upload(("a.md", lamps(3)), ("b.md", b"# Fog\n\nNobody rows to the island."))
    process(4)
    assert statuses() == {"ready"}
    hits = search.search(OWNER, "lamp", mode="vector", limit=3)
    assert hits.mode == "vector" and {hit.file_name for hit in hits.hits} == {"a.md"}
    assert hits.hits[0].score == pytest.approx(1, abs=0.01)
    assert found("fog", "hybrid") == {"a.md", "b.md"}
    assert all("burns" not in json.dumps(one) for one in stored().values())
    content = Content.objects.get(files=file)
    keys = {one for one in stored() if one.startswith(file.pk.hex)}
    assert keys == {f"{file.pk.hex}_{content.pk}_{n}" for n in range(3)}


def test_a_call_has_up_to_a_thousand_documents_and_16_megabytes() -> None:
    many = [{"id": str(n)} for n in range(2300)]
    assert [len(some) for some in azure._calls(many)] == [1000, 1000, 300]
    large = [{"id": str(n), "vector": "9" * 1_000_000} for n in range(40)]
    calls = list(azure._calls(large))
    assert [one for some in calls for one in some] == large
    assert [len(some) for some in calls] == [15, 15, 10]
    assert all(len(json.dumps({"value": some})) <= 16_000_000 for some in calls)


def test_a_file_is_ready_only_when_every_document_is_in(service: str) -> None:
    Service.reports = [{1: 503, 3: 409}, {3: 422}]
    upload(("a.md", lamps(5)))
    process(4)
    assert statuses() == {"ready"}
    assert [len(some) for some in sent()] == [5, 2, 1]
    assert len(stored()) == 5
    assert Job.objects.filter(failures__gt=0).count() == 0


def test_a_file_waits_while_documents_are_not_taken_and_then_sends_all_again(service: str) -> None:
    Service.reports = [{1: 503}] * 4
    with freeze_clock() as clock:
        upload(("a.md", lamps(3)))
        run_jobs()
        assert statuses() == {"embedding"} and len(stored()) == 2
        assert search.search(OWNER, "lamp").hits == []
        for _ in range(3):
            clock.tick(20)
            run_jobs()
    assert statuses() == {"ready"} and found() == {"a.md"}
    assert [len(some) for some in sent()] == [3, 1, 1, 1, 3]
    assert set(StageRun.objects.values_list("attempts", flat=True)) == {1}


def test_documents_that_are_not_reported_are_sent_again(service: str) -> None:
    Service.answers = [(200, {}, {"value": []})]
    upload(("a.md", lamps(2)))
    process(4)
    assert statuses() == {"ready"} and [len(some) for some in sent()] == [2, 2]


def test_a_status_that_is_not_true_is_no_success(service: str) -> None:
    answer = {"value": [{"key": "x", "status": "true", "statusCode": 503, "errorMessage": ""}]}
    Service.answers = [(207, {}, answer)]
    upload(("a.md", lamps(1)))
    process(4)
    assert len(sent()) == 2 and len(stored()) == 1


HTML = b"<html><body>Service Unavailable</body></html>"
OUTAGES: dict[str, tuple[int, dict[str, str], Any]] = {
    "wrong key": (403, {}, {"error": "x"}), "no login": (401, {}, {}),
    "no index": (404, {}, {"error": "x"}), "broken": (500, {}, {"error": "x"}),
    "maintenance": (503, {}, HTML), "a proxy's page": (200, {}, HTML),
    "half a line": (207, {}, b'{"value": [{"key": "a", "sta'), "a list": (200, {}, ["x"]),
    "no reports": (200, {}, {"value": [{"key": 1}]}), "nothing": (200, {}, b""),
    "redirect": (302, {"Location": "http://127.0.0.1/"}, {}),
}  # fmt: skip


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_is_no_fault_of_a_file(service: str, outage: str) -> None:
    Service.answers = [OUTAGES[outage]]
    document = {"@search.action": "delete", "id": "a_1_0"}
    with pytest.raises(indexing.Unavailable) as raised:
        azure._put(named(MINILM), [document])
    assert KEY not in str(raised.value)
    azure._put(named(MINILM), [document])


def test_files_wait_out_an_outage(service: str) -> None:
    Service.answers = [OUTAGES["wrong key"], OUTAGES["a proxy's page"]]
    with freeze_clock() as clock:
        upload(("a.md", lamps(1)), ("b.md", lamps(2)))
        run_jobs()
        assert statuses() == {"embedding"}
        for _ in range(5):
            clock.tick(20)
            run_jobs()
    assert statuses() == {"ready"}
    assert Job.objects.filter(failures__gt=0).count() == 0
    opened = {one.key for one in emitted("jobs.circuit.opened")}
    assert opened == {"circuit:fileproc.index"}


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_holds_all_calls_back(service: str, status: int) -> None:
    Service.answers = [(status, {"Retry-After": "100"}, {"error": "slow down"})]
    with freeze_clock() as clock:
        upload(("a.md", lamps(1)), ("b.md", lamps(2)))
        for _ in range(4):
            run_jobs()
            clock.tick(20)
        assert statuses() == {"embedding"} and len(sent()) == 1
        for _ in range(4):
            clock.tick(20)
            run_jobs()
    assert statuses() == {"ready"}
    assert emitted("jobs.circuit.opened") == []
    assert set(StageRun.objects.values_list("attempts", flat=True)) == {1}


def test_a_document_that_is_refused_fails_its_file_alone(service: str) -> None:
    Service.reports = [{0: 400}] * 3
    upload(("bad.md", lamps(2)))
    process(6)
    upload(("good.md", b"# A lamp"))
    process(4)
    ended = dict(File.objects.values_list("name", "status"))
    assert ended == {"bad.md": "failed", "good.md": "ready"}
    failed = File.objects.get(name="bad.md")
    assert failed.error is not None and failed.error["code"] == "INDEX_REFUSED"
    assert emitted("jobs.circuit.opened") == []
    assert found() == {"good.md"}


def test_a_call_that_is_refused_as_too_large_is_made_in_halves(service: str) -> None:
    Service.most = 3
    upload(("a.md", lamps(10)))
    process(4)
    assert statuses() == {"ready"} and len(stored()) == 10


def test_an_index_of_another_shape_makes_files_wait(service: str) -> None:
    vector_field = Service.schemas[NAME]["fields"][-1]
    vector_field["dimensions"] = 1536
    upload(("a.md", lamps(1)))
    with freeze_clock() as clock:
        run_jobs()
        assert statuses() == {"embedding"}
        with pytest.raises(CommandError, match="has other fields: vector"):
            call_command("fileproc", "check", stdout=io.StringIO())
        vector_field["dimensions"] = 384
        for _ in range(3):
            clock.tick(20)
            run_jobs()
    assert statuses() == {"ready"}


def test_every_question_is_limited_to_its_owner(service: str) -> None:
    upload(("a.md", lamps(1)))
    upload(("b.md", lamps(2)), owner="o'neill ' or owner ne '")
    process(4)
    assert found() == {"a.md"}
    hits = search.search("o'neill ' or owner ne '", "lamp", mode="vector").hits
    assert {hit.file_name for hit in hits} == {"b.md"}
    assert search.search("user:2", "lamp", mode="vector").hits == []
    asked = [body["filter"] for _, path, body in Service.calls if path.endswith("/docs/search")]
    assert asked and all(one.startswith("owner eq '") for one in asked)


def test_hits_of_another_owner_are_dropped_whatever_the_service_says(service: str) -> None:
    upload(("a.md", lamps(1)))
    upload(("b.md", lamps(2)), owner="user:2")
    process(4)
    for one in stored().values():
        one["owner"] = OWNER
    assert found() == {"a.md"}


def test_filters_narrow_the_question(service: str) -> None:
    [first] = upload(("a.md", lamps(1)))
    upload(("b.md", lamps(2)))
    process(4)
    batches.set_metadata(OWNER, {first.pk: {"year": 1890}})
    assert found(metadata='{"year": 1890}') == {"a.md"}
    assert found(batch_id=first.batch_id) == {"a.md"}
    asked = Service.calls[-1][2]["filter"]
    assert asked.endswith(
        f" and search.in(content, '{File.objects.get(pk=first.pk).content_id}', ',')"
    )
    assert found(type="pdf") == set()
    many = list(azure._filters(list(range(12_000))))
    assert len(many) == 3 and sum(one.count(",") for one in many) == 12_000 + 3 * 2


RUDE_HITS: tuple[Any, ...] = (
    HTML, ["x"], {"value": [{"chunk": "1; drop table", "@search.score": 1}]}, {"value": None},
    {"value": [{"chunk": 1, "@search.score": "NaN"}]}, {"value": [{"@search.score": 1}]},
)  # fmt: skip


@pytest.mark.parametrize("answer", RUDE_HITS, ids=range(len(RUDE_HITS)))
def test_a_search_is_by_words_while_the_service_talks_nonsense(service: str, answer: Any) -> None:
    upload(("a.md", lamps(1)))
    process(4)
    Service.answers = [(200, {}, answer)]
    hits = search.search(OWNER, "lamp")
    assert hits.mode == "text" and len(hits.hits) == 1


def test_a_search_is_by_words_while_the_service_is_silent(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(("a.md", lamps(1)))
    process(4)
    monkeypatch.setattr(azure, "PATIENCE", 0.1)
    Service.pause = 0.5
    assert search.search(OWNER, "lamp").mode == "text"


def test_a_deleted_file_leaves_no_documents(service: str) -> None:
    [file, _] = upload(("a.md", lamps(3)), ("b.md", lamps(2)))
    process(4)
    deleting.delete(OWNER, file.pk)
    assert found() == {"b.md"}
    Service.answers = [(503, {}, HTML)]
    process(6)
    assert len(stored()) == 2
    assert DeadLetter.objects.count() == 0


def test_equal_files_share_documents_until_the_last_is_deleted(service: str) -> None:
    files = upload(("a.md", lamps(2)), ("b.md", lamps(2)))
    process(8)
    assert statuses() == {"ready"} and len(stored()) == 2
    deleting.delete(OWNER, files[0].pk)
    process(4)
    assert len(stored()) == 2 and found() == {"b.md"}
    deleting.delete(OWNER, files[1].pk)
    process(4)
    assert stored() == {}


def test_documents_of_a_file_that_is_deleted_halfway_go_too(service: str) -> None:
    Service.reports = [{1: 503}] * 4
    with freeze_clock() as clock:
        [file] = upload(("a.md", lamps(2)))
        run_jobs()
        assert len(stored()) == 1
        deleting.delete(OWNER, file.pk)
        run_jobs()
        assert Content.objects.count() == 0
        clock.tick(indexing.LATE + 1)
        run_jobs()
    assert stored() == {}


def test_a_new_generation_replaces_the_documents_of_the_old(service: str) -> None:
    [file] = upload(("a.md", lamps(3)))
    process(4)
    old = set(stored())
    reprocessing.reprocess(OWNER, file.pk, by="ana")
    run_jobs(["file-extract"])
    run_jobs(["file-chunk"])
    assert found() == {"a.md"} and set(stored()) == old
    process(6)
    assert found() == {"a.md"}
    assert len(stored()) == 3 and not old & set(stored())


@pytest.mark.usefixtures("model")
def test_a_change_of_the_index_is_found_before_and_after_reindexing(
    service: str, settings: Any
) -> None:
    there = settings.FILEPROC
    settings.FILEPROC = {"EMBEDDER": "minilm", "INDEX_URL": service, "INDEX_KEY": KEY}
    upload(("a.md", lamps(2)))
    process(4)
    assert sent() == [] and found() == {"a.md"}
    settings.FILEPROC = there
    upload(("b.md", lamps(3)))
    process(4)
    assert found() == {"a.md", "b.md"}
    call_command("fileproc", "reindex", stdout=io.StringIO())
    process(4)
    assert found() == {"a.md", "b.md"} and len(stored()) == 5
    settings.FILEPROC = {"EMBEDDER": "minilm", "INDEX_URL": service, "INDEX_KEY": KEY}
    call_command("fileproc", "reindex", stdout=io.StringIO())
    process(6)
    assert found() == {"a.md", "b.md"} and stored() == {}


def test_check_makes_the_index_and_says_what_is_wrong(service: str, settings: Any) -> None:
    Service.schemas.clear()
    call_command("fileproc", "check", stdout=io.StringIO())
    assert set(Service.schemas) == {NAME}
    settings.FILEPROC = {**settings.FILEPROC, "INDEX_KEY": "wrong"}
    with pytest.raises(CommandError, match=r"cannot be used: .* status 403"):
        call_command("fileproc", "check", stdout=io.StringIO())


def test_neither_the_key_nor_a_text_is_written_down(service: str, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    Service.answers = [(500, {}, {"error": f"{KEY} canary"})]
    Service.reports = [{0: 400}] * 3
    upload(("a.md", b"# Lamp\n\ncanary"))
    process(8)
    assert statuses() == {"failed"}
    written = [str(list(Attempt.objects.values())), caplog.text, str(emitted("*"))]
    assert all(KEY not in one and "canary" not in one for one in written)


WRONG = [
    ({"INDEX": "elastic"}, "INDEX'] must be one of postgres, azure"),
    ({"INDEX_URL": ""}, "INDEX_URL'] is needed"),
    ({"INDEX_URL": "papers"}, "must begin with https:// or http://"),
    ({"INDEX_KEY": " \n"}, "INDEX_KEY'] is needed"),
    ({"INDEX_NAME": "My_Documents"}, "INDEX_NAME'] must have"),
    ({"INDEX_RATE": "fast"}, "INDEX_RATE of FILEPROC must be like"),
    ({"EMBEDDER": "none"}, "needs an EMBEDDER"),
]


@pytest.mark.parametrize(("wrong", "problem"), WRONG)
def test_wrong_settings_are_named(settings: Any, wrong: dict[str, str], problem: str) -> None:
    good = {"INDEX": "azure", "INDEX_URL": "https://a.search.windows.net", "INDEX_KEY": "a secret"}
    settings.FILEPROC = good
    assert "a secret" not in repr(config.settings())
    settings.FILEPROC = {**good, **wrong}
    [error] = checks.check_settings()
    assert error.id == "fileproc.E001" and problem in error.msg


def test_an_index_without_a_model_is_an_error(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fileproc.embedding.is_installed", lambda: False)
    settings.FILEPROC = {"INDEX": "azure", "INDEX_URL": "https://a.example", "INDEX_KEY": "k"}
    assert [one.id for one in checks.check_settings()] == ["fileproc.E003"]


def test_the_name_of_an_index_is_one_that_the_service_takes(settings: Any) -> None:
    settings.FILEPROC = {"INDEX_NAME": "a" * 62}
    for model in (MINILM, "openai/text-embedding-3-large/3072"):
        name = azure._name(named(model))
        assert re.fullmatch(r"[a-z0-9](-?[a-z0-9])*", name) and len(name) <= 128
