"""``manage.py fileproc``: upload folders, see how they come through, search, reindex, check."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, QuerySet

from fileproc import embedding, indexing, ocr, upkeep
from fileproc.errors import Refused
from fileproc.indexing import postgres
from fileproc.models import Batch, File, FileStatus
from fileproc.schemas import of_hit
from fileproc.services import importing, quotas, reprocessing, search, sources
from fileproc.states import ENDED
from jobs import http, sandbox

OPEN_END = 3600


class Command(BaseCommand):
    help = "Upload documents, see how they come through, search, reindex, check the installation."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        add = commands.add_parser("upload", help="upload what is new in a folder or a bucket")
        add.add_argument("path", help="a folder, a file, or s3://bucket/folder")
        add.add_argument("--retry-failed", action="store_true", help="retry files that failed")
        add.add_argument(
            "--replace", action="store_true",
            help="let files that have changed take the place of those uploaded before",
        )  # fmt: skip
        add.add_argument(
            "--no-ocr", action="store_true", help="do not recognise the text of pictures and scans"
        )
        add.add_argument("--wait", action="store_true", help="wait until every file has ended")
        commands.add_parser("status", help="say how many files are where, and what failed")
        find = commands.add_parser("search", help="search by words and by meaning")
        find.add_argument("query")
        find.add_argument("--mode", choices=search.MODES, default="hybrid")
        find.add_argument("--limit", type=int, default=10, metavar="N", help="hits (default: 10)")
        for command in (add, commands.choices["status"], find):
            command.add_argument(
                "--owner", required=True, help="the tenant, such as user:1 or acme"
            )
            command.add_argument("--json", action="store_true", help="print JSON")
        again = commands.add_parser(
            "reindex", help="reprocess what is ready by another model, or other settings"
        )
        again.add_argument("--owner", default="", help="only this tenant's (default: all)")
        again.add_argument("--wait", action="store_true", help="wait until it is done")
        again.add_argument("--json", action="store_true", help="print JSON")
        check = commands.add_parser("check", help="check model, vectors, sandbox and leftovers")
        check.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['command']}")(options)
        except Refused as error:
            raise CommandError(str(error)) from None

    def _upload(self, options: dict[str, Any]) -> None:
        owner = options["owner"]
        counted: Counter[str] = Counter()
        by = "manage.py fileproc upload"
        try:
            for step in importing.upload(
                owner, self._items(options["path"]), by=by, retry_failed=options["retry_failed"],
                replace=options["replace"], with_ocr=not options["no_ocr"],
            ):  # fmt: skip
                counted[step.result] += 1
                if step.reason and not options["json"]:
                    self.stdout.write(f"{step.label}: {step.result}: {step.reason}")
        except (http.HttpError, http.HTTPStatusError) as error:
            raise CommandError(
                f"{error}; what was sent stays, and the same command sends the rest"
            ) from None
        if options["wait"]:
            self._wait(owner)
        told = {name: counted[name] for name in ("sent", "there", "retried", "failed", "refused")}
        if options["json"]:
            self.stdout.write(json.dumps(told))
            return
        self.stdout.write(", ".join(f"{n} {name}" for name, n in told.items()))
        if counted["failed"]:
            self.stdout.write("those that failed are tried again with --retry-failed")

    def _items(self, place: str) -> Iterator[sources.Item]:
        if place.startswith(sources.SCHEME):
            return sources.of_bucket(place)
        root = Path(place).resolve()
        if not root.exists():
            raise CommandError(f"{root}: there is no such file or folder")
        return sources.of_folder(root)

    def _wait(self, owner: str) -> None:
        rows = File.objects.shown().filter(owner=owner).exclude(status__in=ENDED)
        self._await(rows.exclude(blob_etag=""))

    def _await(self, rows: QuerySet[File]) -> None:
        end = time.monotonic() + OPEN_END
        while rows.exists():
            if time.monotonic() > end:
                raise CommandError("files are still being processed after an hour")
            time.sleep(0.5)

    def _reindex(self, options: dict[str, Any]) -> None:
        counted: Counter[str] = Counter()
        for file in reprocessing.outdated(options["owner"]):
            try:
                reprocessing.reprocess(file.owner, file.pk, by="manage.py fileproc reindex")
                counted["begun"] += 1
            except Refused:  # it was deleted, or replaced, meanwhile
                counted["skipped"] += 1
        drafts = File.objects.live().filter(is_draft=True)
        if options["owner"]:
            drafts = drafts.filter(owner=options["owner"])
        if options["wait"]:
            self._await(drafts.exclude(status__in=ENDED))
        counts = {
            "begun": counted["begun"], "skipped": counted["skipped"],
            "failed": drafts.filter(status=FileStatus.FAILED).count(),
        }  # fmt: skip
        if options["json"]:
            self.stdout.write(json.dumps(counts))
            return
        self.stdout.write(", ".join(f"{n} {name}" for name, n in counts.items()))

    def _status(self, options: dict[str, Any]) -> None:
        rows = File.objects.shown().filter(owner=options["owner"])
        counted = dict(rows.values_list("status").annotate(n=Count("pk")).order_by("status"))
        errors = dict(
            rows.filter(status="failed").values_list("error_code").annotate(n=Count("pk"))
        )
        told = {
            "files": counted, "errors": errors,
            "batches": Batch.objects.filter(owner=options["owner"]).count(),
            "bytes": quotas.used_bytes(options["owner"]),
            "stuck": upkeep.stuck().filter(owner=options["owner"]).count(),
        }  # fmt: skip
        if options["json"]:
            self.stdout.write(json.dumps(told))
            return
        if not counted:
            self.stdout.write("there are no files")
        for name, n in [*counted.items(), *((f"  {code}", n) for code, n in errors.items())]:
            self.stdout.write(f"{name:<24} {n}")

    def _search(self, options: dict[str, Any]) -> None:
        if not 1 <= options["limit"] <= 50:
            raise CommandError("--limit must be from 1 to 50")
        found = search.search(
            options["owner"], options["query"], mode=options["mode"], limit=options["limit"]
        )
        hits = [of_hit(hit) for hit in found.hits]
        if options["json"]:
            self.stdout.write(json.dumps({"mode": found.mode, "hits": hits}, default=str))
            return
        if found.mode != options["mode"]:
            self.stdout.write(f"(searched by {found.mode})")
        for hit in hits:
            place = [hit["fileName"]]
            if hit["pages"]:
                first, last = hit["pages"]
                place.append(f"page {first}" if first == last else f"pages {first}-{last}")
            place += hit["headings"]
            self.stdout.write(f"{hit['score']:.3f}  {' > '.join(place)}\n       {hit['snippet']}")
        if not hits:
            self.stdout.write("nothing was found")

    def _check(self, options: dict[str, Any]) -> None:
        index = indexing.current()
        why, problem = index.create(), ""
        if embedding.model():
            try:
                embedding.probe()
            except embedding.Unavailable as error:
                problem = str(error)
        orphans = upkeep.orphans()
        told = {
            "model": embedding.model() or "none: search is by words only",
            "embedder": problem or "ready",
            "index": index.place() or "PostgreSQL", "vectors": why or "ready",
            "sandbox": sandbox.isolation(),
            "ocr": "ready" if ocr.is_installed() else "not installed: pictures have no text",
            "orphaned blobs": len(orphans.blobs),
            "files without blob": len(orphans.files),
            "stuck files": upkeep.stuck().count(),
        }  # fmt: skip
        if options["json"]:
            self.stdout.write(json.dumps(told))
        else:
            for name, value in told.items():
                self.stdout.write(f"{name:<16} {value}")
        if why and index is not postgres:
            raise CommandError(f"the search service cannot be used: {why}")
        if problem:
            raise CommandError(f"the embedding model cannot be used: {problem}")
