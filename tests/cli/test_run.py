"""``manage.py jobs run --web``: what the web server lacks is said before anything starts."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from jobs.cli import web
from tests.architecture.sources import ROOT


def test_a_missing_application_is_named_with_that_of_the_project(settings: Any) -> None:
    settings.ASGI_APPLICATION = None
    settings.ROOT_URLCONF = "shop.urls"
    with pytest.raises(CommandError, match=r"ASGI_APPLICATION, such as 'shop\.asgi\.application'"):
        call_command("jobs", "run", "--web=127.0.0.1:1")


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def statuses(app: Any, path: str) -> list[int]:
    """Return the status of a GET of the path."""
    asked: list[dict[str, Any]] = [{"type": "http.request", "body": b""}]
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return asked.pop() if asked else await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"",
             "headers": [(b"host", b"localhost")]}  # fmt: skip
    await app(scope, receive, send)
    return [message["status"] for message in told if "status" in message]


def test_static_files_are_served_with_debug_only(settings: Any) -> None:
    name = f"{__name__}.application"
    settings.DEBUG = True
    assert asyncio.run(statuses(web.served(name), "/static/nothing.css")) == [404]
    assert asyncio.run(statuses(web.served(name), "/jobs/")) == [418]
    settings.DEBUG = False
    assert web.served(name) == f"{__name__}:application"


def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"another program listens at 127.0.0.1:{port}"):
            call_command("jobs", "run", f"--web={port}")


FOREMAN = """
import sys, time
from jobs.cli.run import write
from jobs.engine.foreman import Foreman, Program
code = "import pathlib, sys, time; print('begun', flush=True); time.sleep(0.3);" \\
    "print('again', flush=True); pathlib.Path(sys.argv[1]).touch(); time.sleep(60)"
from pathlib import Path
mark = Path(sys.argv[1])
program = Program("long", (sys.executable, "-c", code, str(mark)))
sys.exit(Foreman([program], write).run(done=mark.exists))
"""


@pytest.mark.parametrize("fault", ["no reader", "full disk", "closed"])
def test_programs_do_not_end_with_their_log(fault: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOREMAN, str(tmp_path / "mark")]
    if fault == "no reader":
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(command, stdout=writing, cwd=ROOT, check=False)
        os.close(writing)
    elif fault == "full disk":
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, cwd=ROOT, check=False)
    else:
        shell = " ".join(map(shlex.quote, command)) + " >&-"
        done = subprocess.run(["/bin/sh", "-c", shell], cwd=ROOT, check=False)
    assert done.returncode == 0
    assert (tmp_path / "mark").exists()
