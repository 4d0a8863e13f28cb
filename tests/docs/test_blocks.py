"""The Python of every document runs as it is pasted, block after block, and lacks no name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from tests.docs import pages
from tests.docs.paste import new_project

BY_HAND = {
    "docs/building-an-app.md": "its blocks are files that `startapp` creates; "
    "tests/cli/test_startapp.py runs these",
}
"""Documents whose blocks are not pasted, and why."""


@pytest.fixture(scope="module")
def problems(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong in each document that was pasted."""
    database = connection.settings_dict["NAME"]
    broken = tmp_path_factory.mktemp("docs") / "broken.md"
    broken.write_text("# Broken\n\n```python\nimport jobs\n```\n\n```python\njobs.enqueu()\n```\n")
    names = [str(broken), *(name for name in pages.PAGES if name not in BY_HAND)]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.paste", database, *names],
        cwd=pages.ROOT, env=os.environ.copy(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.django_db  # makes the test database, on which the process works
@pytest.mark.parametrize("name", [name for name in pages.PAGES if name not in BY_HAND])
def test_every_block_runs_as_it_is_pasted(name: str, problems: dict[str, str]) -> None:
    assert not problems[name], problems[name]


@pytest.mark.django_db
def test_a_block_that_fails_is_found(problems: dict[str, str]) -> None:
    [found] = [words for name, words in problems.items() if name.endswith("broken.md")]
    assert 'broken.md", line 8' in found and "AttributeError" in found


def test_no_block_lacks_a_name(tmp_path: Path) -> None:
    """Each document by itself; blocks for ``settings.py`` extend those of a new project."""
    for name in pages.PAGES:
        modules, settings = [""] * 2, [" = ".join(new_project()) + " = None"]
        for block in pages.python(name):
            into = settings if block.file == "settings.py" else modules
            into += [""] * (block.line - len(into)) + block.code.splitlines()
        stem = name.removesuffix(".md").replace("/", ".")
        (tmp_path / f"{stem}.py").write_text("\n".join(modules))
        (tmp_path / f"{stem}.settings.py").write_text("\n".join(settings))
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821",
         "--output-format=concise", "."],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
