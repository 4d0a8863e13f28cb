"""An index of Azure AI Search: vectors are there, words stay in PostgreSQL.

A document is a chunk: its vector, its owner and its ids, and nothing of its text. A search asks for
the owner's nearest documents; PostgreSQL then says which of them belong to files that are ready,
so that nothing of a file is found before all of its documents are there.
"""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import transaction

import jobs
from fileproc import config, embedding, indexing, wanted
from fileproc.embedding import Model
from fileproc.errors import FileError
from fileproc.indexing import Rows, Unavailable
from fileproc.models import Content, File
from jobs import http

MOST_DOCUMENTS, MOST_BYTES = 1000, 16_000_000
"""Documents of a call, and bytes of its body."""
MOST_CONTENTS = 5000
"""Contents that the filter of a question names."""
PAUSES = (1.0, 2.0, 4.0)
"""Seconds until documents that a busy service did not take are sent again, by themselves."""
BUSY = (409, 422, 500, 502, 503, 504)
"""Statuses of a document that may be sent again as it is."""
TOTAL = 60.0
"""Seconds for a call that stores or deletes."""
PATIENCE = 2.0
"""Seconds after which a search goes on by words alone."""
PAUSE = 20.0
"""Seconds until the next call after an answer that says "too many" and not until when."""
meter = jobs.meter("fileproc.index", config.settings().INDEX_RATE, wait=5)
"""Calls of all workers; closed while the service asks for patience."""
Documents = Sequence[dict[str, Any]]


def place() -> str:
    """Return the service and the index, without the secret."""
    settings = config.settings()
    return f"azure {settings.INDEX_URL.rstrip('/')} {settings.INDEX_NAME}"


def exists(model: Model) -> bool:
    """Return that vectors can be stored; if the service knows no such index, files wait."""
    return True


def create() -> str:
    """Make the index for the model in use; return why that is not possible, if so."""
    model = embedding.current()
    if model is None:
        return "there is no embedding model"
    try:
        if _find(model) == 404:
            answer = _call("PUT", model, "", _schema(model))
            if answer.status_code not in (200, 201, 204):
                return f"it answered with status {answer.status_code} when the index was made"
        _check_schema(model)
    except Unavailable as error:
        return str(error)
    return ""


def send(ctx: jobs.Context, file: File, content: Content, model: Model, rows: Rows) -> str:
    """Put the documents of a content into the index; return how their keys begin.

    That is stored before the first one is sent, so that they can always be deleted. A repeated
    attempt replaces what it finds.
    """
    if not (key := _key(ctx, file, content, model)):
        return ""
    documents = [
        {
            "@search.action": "upload", "id": f"{key}_{number}", "owner": file.owner,
            "content": str(content.pk), "chunk": pk, "vector": _numbers(vector),
        }
        for pk, number, vector in rows
    ]  # fmt: skip
    for some in _calls(documents):
        ctx.checkpoint()
        indexing.breaker.call(_put, model, some)
    return key


def _key(ctx: jobs.Context, file: File, content: Content, model: Model) -> str:
    """Return ``<file>_<generation>``: of each generation, the file has a content of its own."""
    with transaction.atomic():
        ctx.fence()
        rows = Content.objects.select_for_update(no_key=True).filter(pk=content.pk)
        known = rows.first()
        if known is None:
            return ""  # its file was deleted meanwhile
        if known.model != model.name:
            indexing.forget(known)
        # Another file may have begun with it.
        key = known.index_key or f"{file.shown_id.hex}_{content.pk}"
        rows.update(index_key=key, model=model.name)
    return key


def write(model: Model, owner: str, rows: Rows) -> None:
    """Store nothing in the database: the documents are in the index by now."""


def delete(model: Model, key: str, count: int) -> None:
    """Delete documents by the beginning of their keys; raise Unavailable."""
    documents = [{"@search.action": "delete", "id": f"{key}_{n}"} for n in range(count)]
    for some in _calls(documents):
        try:
            _put(model, some)
        except Unavailable:
            if _find(model) == 404:
                return  # they are gone with their index
            raise


def near(model: Model, vector: bytes, asked: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Return the owner's chunks that are nearest to a vector, with their similarity.

    Raises Unavailable or CircuitOpen where the service does not answer soon.
    """
    indexing.breaker.raise_if_open()
    contents, end = wanted.contents(asked), time.monotonic() + PATIENCE
    most, found = int(asked["candidates"]), []
    query = {"kind": "vector", "vector": _numbers(vector), "fields": "vector", "k": most}
    for of_contents in _filters(contents):
        left = end - time.monotonic()
        if left <= 0:
            raise Unavailable("the search service did not answer in time")
        body = {
            "vectorQueries": [query], "select": "chunk", "top": most,
            "filter": f"owner eq {_quoted(asked['owner'])}{of_contents}",
        }  # fmt: skip
        found += _hits(_call("POST", model, "/docs/search", body, total=left))
    return sorted(found, key=lambda one: (-one[1], one[0]))[:most]


def _filters(contents: list[int] | None) -> Iterator[str]:
    """Yield what is added to the filters of as many questions as it takes."""
    if contents is None:
        yield ""
        return
    for start in range(0, len(contents), MOST_CONTENTS):
        names = ",".join(map(str, contents[start : start + MOST_CONTENTS]))
        yield f" and search.in(content, '{names}', ',')"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _numbers(vector: bytes) -> list[float]:
    return [float(f"{one:.6g}") for one in struct.unpack(f"<{len(vector) // 2}e", vector)]


def _hits(answer: http.Response) -> list[tuple[int, float]]:
    """Return chunks and similarities of an answer, of which nothing is taken for granted."""
    if answer.status_code != 200:
        raise Unavailable(f"the search service answered with status {answer.status_code}")
    try:
        found = [(one["chunk"], float(one["@search.score"])) for one in answer.json()["value"]]
        if not all(type(pk) is int and math.isfinite(score) and score > 0 for pk, score in found):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unavailable("the search service answered with something else than hits") from None
    return [(pk, 2 - 1 / score) for pk, score in found]  # its score is 1 / (2 - similarity)


def _calls(documents: Documents) -> Iterator[Documents]:
    """Yield the documents in calls that the service takes."""
    some: list[dict[str, Any]] = []
    size = 0
    for one in documents:
        length = len(json.dumps(one)) + 2
        if some and (len(some) == MOST_DOCUMENTS or size + length > MOST_BYTES - 100):
            yield some
            some, size = [], 0
        some.append(one)
        size += length
    if some:
        yield some


def _put(model: Model, documents: Documents) -> None:
    """Store or delete documents, until each is reported to be done.

    Raises Unavailable for an outage or a fault of the installation, FileError for a document that
    is refused, and MeterFull or RateLimited when a later call would be welcome.
    """
    for pause in (*PAUSES, None):
        meter.take()
        answer = _call("POST", model, "/docs/index", {"value": list(documents)})
        if answer.status_code in (400, 413):
            _put_halves(model, documents)
            return
        if answer.status_code in (429, 503) and (wait := _wait(answer)):
            meter.close(wait)
            raise jobs.RateLimited(wait)
        documents = _left(model, answer, documents)
        if not documents:
            return
        if pause is not None:
            time.sleep(pause)
    raise Unavailable(f"the search service did not take {len(documents)} documents")


def _put_halves(model: Model, documents: Documents) -> None:
    """Send documents that were refused together in halves: perhaps they are too many."""
    _check_schema(model)
    if len(documents) == 1:
        raise FileError("INDEX_REFUSED")
    half = len(documents) // 2
    _put(model, documents[:half])
    _put(model, documents[half:])


def _left(model: Model, answer: http.Response, documents: Documents) -> Documents:
    """Return the documents that are to be sent again: each that is not reported to be stored."""
    if answer.status_code not in (200, 207):
        # What the service says may repeat the key.
        raise Unavailable(f"the search service answered with status {answer.status_code}")
    try:
        reports = {one["key"]: (one["status"], one["statusCode"]) for one in answer.json()["value"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unavailable("the search service answered with something else than reports") from None
    left = [one for one in documents if reports.get(one["id"], (False, 503))[0] is not True]
    codes = {reports[one["id"]][1] for one in left if one["id"] in reports}
    if 400 in codes:
        _check_schema(model)
        raise FileError("INDEX_REFUSED")
    for code in codes - set(BUSY):
        raise Unavailable(f"the search service refused a document with status {code}")
    return left


def _wait(answer: http.Response) -> float:
    asked = http.retry_after(answer)
    if asked is None:
        return PAUSE if answer.status_code == 429 else 0.0
    return min(max(asked, 1.0), 3600.0)


def _find(model: Model) -> int:
    return _call("GET", model, "").status_code


def _check_schema(model: Model) -> None:
    """Raise Unavailable unless the index is there, and takes the documents of the model."""
    answer = _call("GET", model, "")
    if answer.status_code != 200:
        raise Unavailable(f"the search service answered with status {answer.status_code}")
    try:
        known = {one["name"]: one for one in answer.json()["fields"]}
        needed = {one["name"]: one for one in _schema(model)["fields"]}
        wrong = [
            name for name, one in needed.items()
            if any(known.get(name, {}).get(k) != one.get(k) for k in ("type", "dimensions"))
        ]  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unavailable("the search service answered with something else than an index") from None
    if wrong:
        raise Unavailable(f"its index {_name(model)} has other fields: {', '.join(wrong)}")


def _schema(model: Model) -> dict[str, Any]:
    return {
        "name": _name(model),
        "fields": [
            {"name": "id", "type": "Edm.String", "key": True},
            {"name": "owner", "type": "Edm.String", "filterable": True, "searchable": False},
            {"name": "content", "type": "Edm.String", "filterable": True, "searchable": False},
            {"name": "chunk", "type": "Edm.Int64", "retrievable": True},
            {"name": "vector", "type": "Collection(Edm.Single)", "dimensions": model.dimensions,
             "searchable": True, "retrievable": False, "vectorSearchProfile": "near"},
        ],
        "vectorSearch": {
            "algorithms": [
                {"name": "graph", "kind": "hnsw", "hnswParameters": {"metric": "cosine"}}
            ],
            "profiles": [{"name": "near", "algorithm": "graph"}],
        },
    }  # fmt: skip


def _name(model: Model) -> str:
    """Return the index of a model: like a table, each has one of its own."""
    own = model.table.removeprefix("fileproc_").replace("_", "-")
    return f"{config.settings().INDEX_NAME}-{own}"


def _call(
    method: str, model: Model, path: str, body: dict[str, Any] | None = None, total: float = TOTAL
) -> http.Response:
    settings = config.settings()
    url = f"{settings.INDEX_URL.rstrip('/')}/indexes/{_name(model)}{path}"
    try:
        with http.client(
            total=total, step=total, headers={"api-key": settings.INDEX_KEY.strip()}
        ) as client:
            return client.request(
                method, url, params={"api-version": settings.INDEX_API_VERSION}, json=body
            )
    except http.HttpError as error:
        raise Unavailable(str(error)) from None
