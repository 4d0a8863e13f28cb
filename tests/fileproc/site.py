"""Real servers and workers, and programs that upload to them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx

from config.embedded.ports import free as free_port
from tests.integration.fleet import CHECKOUT, Fleet, Program
from tests.wait import wait_until

TABLES = "fileproc_batch, fileproc_content, fileproc_quota, fileproc_cachedvector, jobs_apikey"

OWNERS = ("acme", "globex")
WHOLE = ["uploaded", "queued", "extracting", "chunking", "embedding", "ready"]
"""The way of a file without a fault."""
FAST = {"RATES": {"extract": "100000/m", "chunk": "100000/m", "embed": "100000/m"}}
"""Settings of a site whose files need not wait for rates."""


class Site:
    """A web server, a dispatcher and workers, and programs that upload."""

    def __init__(
        self, fleet: Fleet, folder: Path, debug: str = "off", owners: tuple[str, ...] = OWNERS,
        settings: dict[str, Any] | None = None,
        with_origin: bool = False,
    ) -> None:  # fmt: skip
        """``settings`` are those of ``FILEPROC``; with an origin, addresses are whole."""
        self.fleet = fleet
        fleet.query(f"TRUNCATE {TABLES} CASCADE")
        if self.has_vectors():
            fleet.query("TRUNCATE fileproc_minilm_384")
        rates = {"read": "100000/m", "write": "100000/m", "refused": "100000/m"}
        self.options: dict[str, Any] = {
            "jobs": {
                "API_RATES": rates,
                "BLOBS": {"STORE": "local", "ROOT": str(folder / "blobs")},
            },
            "env": {
                "FLEET_APPS": "fileproc", "HTTPS": "off", "DEBUG": debug,
                "FLEET_FILEPROC": json.dumps(settings or {}),
            },
        }  # fmt: skip
        people = subprocess.Popen(
            [sys.executable, "-m", "tests.fileproc.stage", *owners], cwd=CHECKOUT,
            env=fleet._environment(self.options["jobs"], self.options["env"]),
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        alone = httpx.Limits(max_keepalive_connections=0)  # nothing is left open
        self.client = httpx.Client(timeout=60, limits=alone)
        if with_origin:
            self.options["jobs"]["BLOBS"]["ORIGIN"] = self.url
        fleet.manage("web", "jobs", "web", str(port), **self.options)
        fleet.dispatcher(**self.options)
        self.keys = json.loads(people.communicate()[0])
        wait_until(self._answers, 60, message="the web server answers")

    def _answers(self) -> bool:
        with suppress(httpx.TransportError):
            return self.client.get(f"{self.url}/api/v1/health/live").status_code == 200
        return False

    def worker(self, *arguments: str) -> Program:
        return self.fleet.worker("--concurrency=4", *arguments, **self.options)

    def run(self, *arguments: str) -> None:
        assert self.fleet.manage("one", *arguments, **self.options).ended(60) == 0

    def has_vectors(self) -> bool:
        return bool(self.fleet.value("SELECT to_regclass('fileproc_minilm_384') IS NOT NULL"))

    def call(self, method: str, path: str, body: Any = None, tenant: str = "acme") -> Any:
        headers = {"Authorization": f"Bearer {self.keys[tenant]}"}
        answer = self.client.request(
            method, f"{self.url}/api/v2/uploads{path}", json=body, headers=headers
        )
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def upload(self, batch: str, name: str, data: bytes, tenant: str = "acme") -> str:
        asked = {"fileName": name, "fileSize": len(data)}
        made = self.call("POST", f"/batches/{batch}/upload-urls", asked, tenant)
        stored = self.client.put(
            urljoin(self.url, made["uploadUrl"]),
            content=data,
            headers={"Content-Type": made["headers"]["Content-Type"]},
        )
        assert stored.status_code == 200, stored.text
        path = f"/batches/{batch}/files/{made['fileId']}/confirm"
        self.call("POST", path, {"size": len(data), "md5": "abc123"}, tenant)
        return str(made["fileId"])

    def batch(self, count: int, tenant: str = "acme") -> str:
        made = self.call("POST", "/batches", {"fileCount": count}, tenant)
        assert made["status"] == "pending_upload"
        return str(made["batchId"])

    def moves(self) -> dict[str, list[str]]:
        """The states that each file has walked through, in order."""
        found: dict[str, list[str]] = {}
        for (payload,) in self.fleet.query(
            "SELECT payload FROM jobs_feed WHERE topic = 'file:status-changed' ORDER BY position"
        ):
            found.setdefault(payload["fileId"], []).append(payload["to"])
        return found

    def summary(self, batch: str, tenant: str = "acme") -> Any:
        return self.call("GET", f"/batches/{batch}", tenant=tenant)["summary"]

    def status(self, file: str) -> str:
        return str(self.call("GET", f"/files/{file}")["status"])

    def await_end(self, batch: str, count: int, timeout: float = 60) -> Any:
        wait_until(lambda: sum(self.summary(batch).values()) == 2 * count, timeout, 0.2,
                   f"all {count} files end")  # fmt: skip
        return self.summary(batch)

    def completions(self, batch: str) -> list[int]:
        """The revisions for which the end of the batch was told."""
        rows = self.fleet.query(
            "SELECT payload->>'revision' FROM jobs_feed WHERE topic = 'batch:completed' "
            "AND key = %s ORDER BY 1", [f"batch:{batch}"],
        )  # fmt: skip
        return [int(revision) for (revision,) in rows]
