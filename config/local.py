"""``python -m config.local [PORT]``: all of the project on one machine, for trying it out.

With DEBUG, servers stand in for what is not configured: an ERP with agents, the providers of a
brand's accounts, a trading venue.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from config import welcome
from config.command import run
from config.standins import beside
from config.standins.publisher import offered
from jobs.cli import ports
from jobs.errors import ConfigError

AGENTS = ("ada", "bea", "service-account")
"""Two people, and the agent of what is synced once for all."""
BY_PAGES = "bea"
"""Works by the pages of the ERP, where a browser can be started."""


def needs_erp() -> bool:
    """Return whether operations have no ERP, and may have the stand-in."""
    from django.apps import apps
    from django.conf import settings

    return (
        settings.DEBUG
        and apps.is_installed("operations")
        and not settings.OPERATIONS.get("ERP_URL")
    )


@contextmanager
def erp(folder: Path) -> Iterator[str]:
    """Run the stand-in, whose state stays in the folder; what follows finds it as its ERP."""
    command = [sys.executable, "-m", "config.standins.erp", "--port", "0", "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        url = process.stdout.readline().strip()
        allowed = filter(None, [os.environ.get("HTTP_ALLOW"), "127.0.0.1"])
        os.environ.update(ERP_URL=url, HTTP_ALLOW=",".join(allowed))
        try:
            yield url
        finally:
            process.terminate()


def make_agents() -> list[str]:
    """Create the agents, unless there are some; return those that are new."""
    from operations import verbs
    from operations.clients import chromium
    from operations.models import Agent

    if Agent.objects.exists():
        return []
    for key in AGENTS:
        client: Any = "browser" if key == BY_PAGES and not chromium.problem() else "http"
        verbs.create_agent(key, key, "secret", by="setup", reason="to try it out", client=client)
    return list(AGENTS)


def by_pages() -> str:
    """Return which agent works by the pages of the ERP, or why none does."""
    from operations.clients import chromium
    from operations.models import Agent

    if Agent.objects.filter(key=BY_PAGES, client="browser").exists():
        return f" {BY_PAGES} works by its pages, in a browser."
    problem = chromium.problem()
    return f" None works by its pages: {problem}." if problem else ""


def welcome_user(url: str) -> None:
    """Make a user and say where to look; without DEBUG, both are the operator's."""
    from django.conf import settings

    from config.embedded import data_folder

    if settings.DEBUG:
        folder = data_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        welcome.announce(url, *welcome.user(folder / "admin-password"), say)


def main() -> int:
    """Migrate, and run everything until interrupted; return the exit code."""
    port = sys.argv[1] if len(sys.argv) > 1 else "8000"
    if not port.isdecimal() or not 0 < int(port) < 65536:
        sys.exit(f"PORT must be a number between 1 and 65535, got {port!r}")
    try:
        ports.check_free(f"127.0.0.1:{port}")
    except ConfigError as error:
        sys.exit(f"{error}; end it, or set PORT")
    run(["manage.py", "migrate", "--verbosity", "0"])
    with ExitStack() as stack:
        if needs_erp():
            from config.embedded import data_folder

            make_agents()
            url = stack.enter_context(erp(data_folder() / "erp"))
            say(f"A stand-in ERP is at {url}, with the agents {', '.join(AGENTS)}.{by_pages()}")
        if offered.is_needed():
            url = stack.enter_context(offered.serving(int(port))).url
            offered.offer(url)
            say(
                f"The accounts of the brand {offered.NAME} publish at {url}, which shows the posts."
            )
        welcome_user(f"http://127.0.0.1:{port}")
        return beside.run(int(port), ["manage.py", "jobs", "run", "--web", port])


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
