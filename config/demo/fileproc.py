"""Documents in the demo: found, reprocessed, a bomb, and a broken PDF that is tried three times."""

from __future__ import annotations

import io
import zipfile
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import jobs
from fileproc.models import File, StageRun
from fileproc.services import announcing, batches, confirming, reprocessing, search
from jobs import blobs, demo

OWNER = "demo"


def _bomb() -> bytes:
    """A Word document of a few hundred kilobytes that unpacks to 400 MB."""
    out = io.BytesIO()
    packed = zipfile.ZipInfo("word/document.xml")
    packed.compress_type = zipfile.ZIP_DEFLATED
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made,
        made.open(packed, "w", force_zip64=True) as member,
    ):
        for _ in range(400):
            member.write(b" " * 1024 * 1024)
    return out.getvalue()


class DocumentAct(demo.Act):
    """A document that is uploaded, and how it is to end."""

    queues = ("file-extract", "file-chunk", "file-embed", "batch-completion")
    name: ClassVar[str]
    wanted: ClassVar[tuple[str, str]]
    """Its status and its error."""

    @abstractmethod
    def data(self) -> bytes:
        """Return its content."""

    def begin(self) -> None:
        data = self.data()
        batch = batches.create(OWNER, 1)
        made = batches.register(OWNER, batch.pk, announcing.Announced(self.name, len(data)))
        assert made.file is not None  # noqa: S101 - the demo's files are good
        self.file = made.file
        blobs.store().write(made.file.blob_key, data)
        heads = confirming.heads(OWNER, batch.pk, [made.file.pk])
        arrival = confirming.Arrival(made.file.pk)
        confirming.confirm(OWNER, batch.pk, [arrival], heads, by="demo")
        self.ids = list(StageRun.objects.filter(file=made.file).values_list("job_id", flat=True))

    def is_over(self) -> bool:
        """Return whether the file has ended; the rest of a failed one's jobs wait for a retry."""
        ended = File.objects.filter(pk=self.file.pk, status__in=["ready", "failed"]).exists()
        return ended and all(job.state != jobs.JobState.RUNNING for job in self.jobs())

    def verdict(self) -> demo.Verdict:
        file = File.objects.get(pk=self.file.pk)
        tries = sum(file.runs.values_list("attempts", flat=True))
        words = f"{file.chunk_count} chunks, {tries} attempts"
        return (file.status, file.error_code) == self.wanted, file.status, words


@demo.shown
class ADocument(DocumentAct):
    title = "a document, uploaded and found"
    name = "handbook.md"
    wanted = ("ready", "")

    def data(self) -> bytes:
        return f"# Duties\n\nThe keeper lights the lamp {self.mark} at dusk.\n".encode()

    def verdict(self) -> demo.Verdict:
        good, ended, words = super().verdict()
        found = search.search(OWNER, f"who lights the lamp {self.mark}")
        is_found = any(hit.file_id == self.file.pk for hit in found.hits)
        return good and is_found, ended, f"{words}, found by {found.mode}"


@demo.shown
class AReprocessedDocument(ADocument):
    title = "a document, processed again while it is found"
    name = "logbook.md"
    _is_begun = False

    def is_over(self) -> bool:
        """Return whether the second generation is there; begin it once the first one is."""
        if not super().is_over():
            return False
        self.file.refresh_from_db()
        if self.file.status == "ready" and not self._is_begun:
            self._is_begun = True
            reprocessing.reprocess(OWNER, self.file.pk, by="demo")
        return self.file.status == "failed" or self.file.generation == 2

    def verdict(self) -> demo.Verdict:
        good, ended, words = super().verdict()
        return good and self.file.generation == 2, ended, f"{words}, generation 2"


@demo.shown
class ABomb(DocumentAct):
    title = "a document that unpacks to 400 MB"
    name = "bomb.docx"
    wanted = ("failed", "BOMB")
    _made: ClassVar[bytes] = b""

    def prepare(self) -> Mapping[str, str]:
        """Pack it before the scenes begin, which would wait for it."""
        ABomb._made = _bomb()
        return {}

    def data(self) -> bytes:
        return self._made or _bomb()


@demo.shown
class ABrokenDocument(DocumentAct):
    title = "a broken PDF"
    name = "broken.pdf"
    wanted = ("failed", "DAMAGED")

    def data(self) -> bytes:
        return f"%PDF-1.4 broken {self.mark}".encode()
