"""Folders and options of a manifest, and searches that are narrowed by them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from fileproc import config
from fileproc.models import Batch, File, Folder
from fileproc.services import search
from jobs import blobs
from tests.fileproc.caller import Caller, program, user
from tests.fileproc.conftest import process

pytestmark = pytest.mark.django_db
TREE: list[dict[str, Any]] = [
    {"tempId": "night", "folderName": "night", "parentTempId": "lamps"},
    {"tempId": "lamps", "folderName": "lamps"},
    {"tempId": "oil", "folderName": "oil"},
]


@pytest.fixture
def ana() -> Caller:
    return user("ana")


def told(ana: Caller, *files: tuple[str, str, bytes], **more: Any) -> Any:
    """Announce files in folders, upload and confirm them; return the answer."""
    wanted = [
        {"tempId": f"f{n}", "fileName": name, "sizeBytes": len(data), "parentTempId": folder}
        for n, (folder, name, data) in enumerate(files)
    ]
    made = ana("POST", "/batches", {"files": wanted, **more})
    assert made.status_code == 201, made.content
    for one, (_, _, data) in zip(made.data["files"], files, strict=True):
        assert ana.put(one, data).status_code == 200
    ids = [{"fileId": one["fileId"]} for one in made.data["files"]]
    ana("POST", f"/batches/{made.data['batchId']}/confirm", {"files": ids})
    process(4)
    return made.data


def test_folders_are_made_once_and_searched_with_what_is_in_them(ana: Caller) -> None:
    files = (
        ("lamps", "a.txt", b"first lantern"), ("night", "b.txt", b"second lantern"),
        ("oil", "c.txt", b"third lantern"), ("", "d.txt", b"fourth lantern"),
    )  # fmt: skip
    made = told(ana, *files, folders=TREE)
    ids = {one["tempId"]: one["folderId"] for one in made["folders"]}
    assert set(ids) == {"night", "lamps", "oil"}
    paths = dict(File.objects.values_list("name", "path"))
    assert paths == {"a.txt": "lamps", "b.txt": "lamps/night", "c.txt": "oil", "d.txt": ""}
    for folder, names in (("lamps", {"a.txt", "b.txt"}), ("night", {"b.txt"}), ("oil", {"c.txt"})):
        asked = {"q": "lantern", "folderId": ids[folder]}
        hits = ana("POST", "/search", asked).data["hits"]
        assert {hit["fileName"] for hit in hits} == names
    assert len(ana("GET", "/search?q=lantern").data["hits"]) == 4
    [first] = ana("GET", f"/search?q=lantern&folderId={ids['oil']}").data["hits"]
    assert ana("GET", f"/files/{first['fileId']}").data["folderId"] == ids["oil"]
    again = told(ana, ("night", "e.txt", b"fifth"), folders=TREE)
    assert {one["tempId"]: one["folderId"] for one in again["folders"]} == ids
    ben = user("ben")
    assert ben("POST", "/search", {"q": "lantern", "folderId": ids["lamps"]}).data["hits"] == []
    told(ben, ("oil", "c.txt", b"third lantern"), folders=TREE)
    assert Folder.objects.count() == 6


BAD: list[tuple[list[dict[str, Any]], str]] = [
    ([{"tempId": "a", "folderName": "a", "parentTempId": "b"},
      {"tempId": "b", "folderName": "b", "parentTempId": "a"}], ""),
    ([{"tempId": "a", "folderName": "a", "parentTempId": "a"}], ""),
    ([{"tempId": "a", "folderName": "a", "parentTempId": "nobody"}], ""),
    ([{"tempId": "f0", "folderName": "a"}], ""),
    ([{"tempId": "a", "folderName": "a"}, {"tempId": "a", "folderName": "b"}], ""),
    ([{"tempId": "a", "folderName": "../x"}], ""),
    ([{"tempId": "a", "folderName": ".."}], ""),
    ([{"tempId": "a", "folderName": "x\x00"}], ""),
    ([{"tempId": "", "folderName": "x"}], ""),
    ([{"tempId": str(n), "folderName": str(n)} for n in range(201)], ""),
    ([{"tempId": "a", "folderName": "a"}], "elsewhere"),
    ([{"tempId": str(n), "folderName": "d" * 200, "parentTempId": str(n - 1) if n else ""}
      for n in range(8)], ""),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD)))
def test_a_bad_tree_is_refused_as_a_whole(ana: Caller, case: int) -> None:
    folders, parent = BAD[case]
    file = {"tempId": "f0", "fileName": "a.txt", "sizeBytes": 1, "parentTempId": parent}
    answer = ana("POST", "/batches", {"files": [file], "folders": folders})
    assert answer.status_code in (400, 422), answer.content
    assert answer.data["errorCode"] in ("INVALID_MANIFEST", "INVALID_REQUEST")
    assert not Batch.objects.exists() and not Folder.objects.exists()


def test_a_batch_chooses_its_chunks(ana: Caller) -> None:
    text = " ".join(f"Sentence number {n} is here." for n in range(200)).encode()
    told(ana, ("", "small.txt", text), chunkSize=40, chunkOverlap=0)
    told(ana, ("", "large.txt", text), chunkSize=200, chunkOverlap=50, skipDuplicateCheck=True)
    small, large = (File.objects.get(name=name) for name in ("small.txt", "large.txt"))
    assert small.chunk_count > 3 * large.chunk_count > 3
    assert small.content is not None and large.content is not None
    assert max(small.content.chunks.values_list("tokens", flat=True)) <= 40
    batch = ana("GET", f"/batches/{small.batch_id}").data
    assert (batch["chunkSize"], batch["chunkOverlap"], batch["language"]) == (40, 0, "en")


@pytest.mark.parametrize(
    "bad",
    [{"chunkSize": 5}, {"chunkSize": 100_000}, {"chunkSize": 100, "chunkOverlap": 80},
     {"chunkOverlap": -1}, {"language": "klingon"}, {"language": "english"}],
)  # fmt: skip
@pytest.mark.parametrize("form", ["step", "manifest"])
def test_bad_options_are_refused(ana: Caller, bad: dict[str, Any], form: str) -> None:
    files = {"files": [{"fileName": "a.txt", "sizeBytes": 1}]}
    body: dict[str, Any] = {"fileCount": 1} if form == "step" else files
    answer = ana("POST", "/batches", {**body, **bad})
    assert (answer.status_code, answer.data["errorCode"]) == (422, "INVALID_REQUEST")
    assert not Batch.objects.exists()


def test_words_are_found_in_the_language_of_their_batch(ana: Caller, settings: Any) -> None:
    settings.FILEPROC = {"EMBEDDER": "none"}
    told(ana, ("", "it.txt", b"Le lanterne brillavano"), language="it")
    told(ana, ("", "en.txt", b"The lanterns were shining"))
    [italian] = search.search(File.objects.all()[0].owner, "brillare lanterna", mode="text").hits
    assert italian.file_name == "it.txt"
    [english] = search.search(File.objects.all()[0].owner, "shines", mode="text").hits
    assert english.file_name == "en.txt"


def test_hits_come_with_their_neighbours(ana: Caller) -> None:
    parts = [f"# Part {n}\n\nThis is {'lantern' if n == 3 else 'nothing'} {n}." for n in range(6)]
    told(ana, ("", "a.md", "\n\n".join(parts).encode()))
    asked = {"q": "lantern", "mode": "text", "neighbours": 2}
    [hit] = ana("POST", "/search", asked).data["hits"]
    assert [one["number"] for one in hit["neighbours"]] == [1, 2, 4, 5] and hit["number"] == 3
    assert "nothing 2" in hit["neighbours"][1]["text"]
    assert ana("GET", "/search?q=lantern&mode=text").data["hits"][0]["neighbours"] == []
    assert ana("POST", "/search", {**asked, "neighbours": 6}).status_code == 422


def test_what_belongs_to_nobody_is_told_to_operators_alone(
    ana: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fileproc import upkeep

    ana.upload("a.txt", b"words")
    lost = File.objects.get()
    blobs.store().delete(lost.blob_key)
    blobs.store().write("fileproc/00/stray", b"stray")
    monkeypatch.setattr(upkeep, "ORPHAN", timedelta(0))
    assert ana("GET", "/orphans").data["errorCode"] == "FORBIDDEN"
    assert program("acme", name="one")("GET", "/orphans").status_code == 403
    found = program(name="all")("GET", "/orphans").data
    assert [one["key"] for one in found["blobs"]] == ["fileproc/00/stray"]
    assert found["files"] == [str(lost.pk)]


def test_a_repeated_request_gets_fresh_addresses_and_none_is_stored(
    ana: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [{"tempId": "a", "fileName": "a.txt", "sizeBytes": 5}]
    asks: list[tuple[str, Any]] = [("/batches", {"files": files})]
    first = ana("POST", *asks[0], **{"Idempotency-Key": "k0"}).data
    batch = first["batchId"]
    file = first["files"][0]["fileId"]
    ana("POST", "/batches", {"fileCount": 1})
    other = str(Batch.objects.exclude(pk=batch).get().pk)
    asks += [
        (f"/batches/{other}/upload-urls", {"fileName": "b.txt", "fileSize": 5}),
        (f"/batches/{batch}/files/{file}/upload-url", None),
    ]
    answers = [first, *(ana("POST", *ask, **{"Idempotency-Key": f"k{n}"}).data
                        for n, ask in enumerate(asks[1:], 1))]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(body, ' ') FROM jobs_api_answer")
        assert "signature" not in cursor.fetchone()[0]
    monkeypatch.setattr(config, "URL_LIFETIME", timedelta(minutes=90))
    for n, (ask, before) in enumerate(zip(asks, answers, strict=True)):
        again = ana("POST", *ask, **{"Idempotency-Key": f"k{n}"})
        assert again["Idempotent-Replayed"] == "true"
        one = again.data["files"][0] if n == 0 else again.data
        old = before["files"][0] if n == 0 else before
        assert one["fileId"] == old["fileId"] and one["uploadUrl"] != old["uploadUrl"]
        assert one["headers"] == old["headers"]
    assert ana.put(again.data, b"words").status_code == 200
    assert Batch.objects.count() == 2 and File.objects.count() == 2
    ana("DELETE", f"/batches/{batch}")
    gone = ana("POST", *asks[0], **{"Idempotency-Key": "k0"}).data
    assert gone["files"][0]["uploadUrl"] is None


def test_operators_set_quotas_in_the_apps_own_api(ana: Caller) -> None:
    from fileproc.verbs import CHANGE_QUOTA

    ana("POST", "/batches", {"fileCount": 1})
    path, body = (
        f"/quotas/{Batch.objects.get().owner}/set",
        {"bytes_limit": 3, "reason": "a small disk"},
    )
    assert ana("POST", path, body).status_code == 403
    keeper = program(permissions=[CHANGE_QUOTA], name="keeper")
    assert keeper("POST", path, body).status_code == 200
    assert ana("POST", "/batches", {"files": [{"fileName": "a.txt", "sizeBytes": 4}]}).data[
        "errorCode"
    ] == "QUOTA_EXCEEDED"  # fmt: skip
