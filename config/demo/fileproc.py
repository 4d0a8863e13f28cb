"""Documents in the demo: a folder, searches, a bomb, a broken PDF, a worker that is killed."""

from __future__ import annotations

import io
import os
import signal
import zipfile
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

import jobs
from fileproc.models import Batch, File, FileStatus, StageRun
from fileproc.services import (
    announcing,
    batches,
    confirming,
    folders,
    reprocessing,
    retrying,
    search,
)
from jobs import blobs, demo
from jobs.models import Job, Lease

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
        _confirm(batch, [made.file])
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


def _confirm(batch: Batch, files: list[File]) -> None:
    heads = confirming.heads(OWNER, batch.pk, [file.pk for file in files])
    arrivals = [confirming.Arrival(file.pk) for file in files]
    confirming.confirm(OWNER, batch.pk, arrivals, heads, by="demo")


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
    title = "a broken PDF, retried once by hand"
    name = "broken.pdf"
    wanted = ("failed", "DAMAGED")
    _is_retried = False

    def data(self) -> bytes:
        return f"%PDF-1.4 broken {self.mark}".encode()

    def is_over(self) -> bool:
        """Return whether it has failed for the second time; retry it after the first."""
        if not super().is_over():
            return False
        if not self._is_retried:
            self._is_retried = True
            retrying.retry(OWNER, self.file.pk, by="demo")
            return False
        return True

    def verdict(self) -> demo.Verdict:
        good, ended, words = super().verdict()
        by = self.file.runs.exclude(retried_at=None).values_list("retried_by", flat=True)
        return good and list(by) == ["demo"], ended, f"{words}, a retry by hand"


@demo.shown
class AFolder(DocumentAct):
    title = "a folder with six documents, of which one is broken"
    name = "station"
    wanted = ("completed", "")
    FILES: ClassVar[dict[str, tuple[str, str]]] = {
        "duties.md": ("", "# Duties\n\nThe keeper of {mark} lights the lamp at dusk."),
        "rota.csv": ("", "day,keeper\nMonday,Ada of {mark}\nTuesday,Grace of {mark}\n"),
        "boat.txt": ("", "The boat to {mark} leaves at high tide."),
        "oil.html": ("stores", "<h1>Oil</h1><p>Forty barrels came to {mark}.</p>"),
        "wicks.json": ("stores", '{{"wicks of {mark}": 200}}'),
        "lost.pdf": ("stores", "%PDF-1.4 broken {mark}"),
    }

    def data(self) -> bytes:
        return b""

    def begin(self) -> None:
        """Announce the folder with one manifest, upload, and confirm with one request."""
        contents = [text.format(mark=self.mark).encode() for _, text in self.FILES.values()]
        self.batch, made, places = batches.create_from(
            OWNER,
            [
                announcing.Announced(name, len(data), parent=folder or self.name)
                for (name, (folder, _)), data in zip(self.FILES.items(), contents, strict=True)
            ],
            skip_duplicate_check=True,
            announced_folders=[
                folders.Announced(self.name, f"{self.name} {self.mark}"),
                folders.Announced("stores", "stores", self.name),
            ],
        )
        self.stores = places["stores"]
        files = [one.file for one in made if one.file is not None]
        for file, data in zip(files, contents, strict=True):
            blobs.store().write(file.blob_key, data)
        _confirm(self.batch, files)

    def is_over(self) -> bool:
        """Return whether every document has ended."""
        self.batch.refresh_from_db()
        return self.batch.completed_at is not None

    def verdict(self) -> demo.Verdict:
        self.batch.refresh_from_db()
        found = search.search(OWNER, self.mark, mode="text", folder_id=self.stores)
        names = {hit.file_name for hit in found.hits}
        words = f"{self.batch.ready} ready, {self.batch.failed} failed, {len(names)} found inside"
        is_good = (self.batch.ready, self.batch.failed) == (5, 1) and names == {
            "oil.html", "wicks.json",
        }  # fmt: skip
        return is_good, str(self.batch.status), words


@demo.shown
class AKilledWorker(ADocument):
    title = "a document whose worker is killed while it is embedded"
    name = "archive.md"
    kills = True
    _killed = 0

    def data(self) -> bytes:
        """Return a document that takes a few seconds to embed."""
        head = super().data().decode()
        rest = (f"# Night {n}\n\nFog over {self.mark}, hour {n}.\n" for n in range(60))
        return "\n".join([head, *rest]).encode()

    def step(self) -> str:
        """Kill the process that cuts or embeds it, once."""
        running = Job.objects.filter(pk__in=self.ids, state="running")
        owners = running.exclude(kind="fileproc.extract").values("owner")
        if self._killed or not owners:
            return ""
        for pid in Lease.objects.filter(owner__in=owners).values_list("pid", flat=True):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self._killed += 1
        return "a worker dies while it embeds a document"

    def verdict(self) -> demo.Verdict:
        good, ended, words = super().verdict()
        self.file.refresh_from_db()
        is_whole = self.file.status == FileStatus.READY and self.file.chunk_count > 60
        return good and is_whole, ended, f"{words}; {self._killed} worker killed"
