"""The gate: every tier of tests and checks, as many side by side as there are processors.

A tier's output is kept, and printed whole when the tier has ended. All tiers run, whatever fails;
the failures of all are printed last. Ctrl-C ends everything, and leaves nothing behind.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lanes import CHECKOUT, SIGNALS, Lanes, Tier, say
from verdict import Verdict

OUTPUT = CHECKOUT / "build" / "gate"
FLEET = "tests/integration"
CORE = "tests/jobs tests/api tests/admin"
OLDEST = "build/oldest"


def newest_python() -> str | None:
    """Return an interpreter that gets the newest Django, which needs Python 3.12."""
    for name in ("3.13", "3.12"):
        installed = sorted(Path.home().glob(f".pyenv/versions/{name}.*/bin/python3"))
        for path in (shutil.which(f"python{name}"), *map(str, installed)):
            if path and can_make_a_venv(path):
                return path
    return None


def can_make_a_venv(python: str) -> bool:
    command = [python, "-c", "import venv, ensurepip"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def tiers(newest: str | None) -> list[Tier]:
    """Return the tiers in the order in which they begin, as far as lanes are free."""
    return [
        Tier("System packages", "sh .ci/packages.sh", "setup"),
        Tier("Setup", "make setup", "setup"),
        Tier("Slow tests", "make test-slow", "slow", ["Setup", "System packages"]),
        *(newest_django(newest) if newest else []),
        Tier(
            "Setup, oldest versions",
            f".venv/bin/python .ci/oldest.py {OLDEST} && "
            f"make setup VENV=.venv-oldest CONSTRAINTS={OLDEST}/constraints.txt",
            "setup",
            ["Setup"],
        ),
        Tier("Check", "make check", "check", ["Setup"]),
        Tier(
            "Browser tests",
            "make test-browser THEME=stock",
            "browser",
            ["Setup", "System packages"],
        ),
        Tier("Tests", "make test", "tests", ["Setup", "System packages"], wide=True),
        Tier(
            "Stock servers",
            f'make test TESTS="{FLEET} tests/jobs tests/operate tests/api"',
            "stock servers",
            ["Setup", "System packages"],
            wide=True,
            env={"SERVERS": "stock"},
        ),
        Tier(
            "Plans on stock servers",  # the embedded PostgreSQL cannot log its plans
            "make test-slow TESTS=tests/integration/test_plans.py",
            "stock servers",
            ["Setup", "System packages"],
            env={"SERVERS": "stock"},
        ),
        Tier(
            "PgBouncer",
            f"make test TESTS={FLEET}",
            "PgBouncer",
            ["Setup", "System packages"],
            wide=True,
            env={"SERVERS": "pgbouncer"},
        ),
        Tier(
            "Oldest versions",
            f'make test VENV=.venv-oldest TESTS="{FLEET} tests/jobs"',
            "oldest versions",
            ["Setup, oldest versions"],
            wide=True,
            env={
                "SERVERS": "stock",
                "POSTGRES_BIN": str(CHECKOUT / OLDEST / "postgresql" / "bin"),
                "REDIS_SERVER": str(CHECKOUT / OLDEST / "redis-server"),
            },
            venv=".venv-oldest",
        ),
    ]


def newest_django(python: str) -> list[Tier]:
    """Return the tiers of the newest Django, on which only pages that differ are looked at."""
    venv = ".venv-newest"
    make = f"VENV={venv} PYTHON={shlex.quote(python)}"
    setup = "Setup, newest Django"
    return [
        Tier(setup, f"make setup {make}", "setup", ["Setup"]),
        Tier(
            "Tests, newest Django",
            f'make test {make} PARALLEL= TESTS="{CORE}"',
            "newest Django",
            [setup],
            venv=venv,
        ),
        *(
            Tier(
                f"Browser tests, newest Django, {theme}",
                f"make test-browser {make} THEME={theme} PAGES='differing and not alike'",
                "browser",
                [setup, "System packages"],
                env={"DJANGO_SETTINGS_MODULE": settings},
                venv=venv,
            )
            for theme, settings in (
                ("stock", "tests.settings"),
                ("unfold", "tests.browser.settings_unfold"),
            )
        ),
    ]


def main(chosen: Sequence[Tier] | None = None) -> int:
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    newest = newest_python()
    if newest is None:
        say("NOT RUN: tests with the newest Django, because there is no Python 3.12 or 3.13 here")
    lanes = Lanes(
        tiers(newest) if chosen is None else chosen, max(1, min(os.cpu_count() or 1, 4)), OUTPUT
    )
    try:
        lanes.run()
        verdict = Verdict(lanes.ended, lanes.waiting, OUTPUT)
        verdict.repeat()
        verdict.tell()
        return 0 if verdict.passed() else 1
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())
