"""Whose library is measured: that of this checkout, or that of another commit.

The other commit is unpacked below build/bench with the benchmarks of this checkout in place of its
own. So both sides are measured in exactly the same way, and a change to the benchmarks is not
taken for one of the library; settings, ``manage.py`` and migrations are those of the commit. A
commit whose library the benchmarks cannot use any more makes the workload break.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import ROOT
from benchmarks.runs import Side

BUILD = ROOT / "build" / "bench"


class NoTree(Exception):
    """Why there is nothing to compare with; one line for the person who asked."""


def this() -> Side:
    """Return this checkout as it is, with whatever has not been committed."""
    try:
        commit = _git("rev-parse", "--short", "HEAD").decode().strip()
        changed = _git("status", "--porcelain", "--untracked-files=no").strip()
    except NoTree:
        return Side("this tree")
    return Side(f"{commit} and changes" if changed else commit)


@contextmanager
def other(commit: str | None, setting: str | None = None) -> Iterator[Side]:
    """Give what this tree is compared with: a commit, a setting of PostgreSQL, or both."""
    settings = dict([_setting(setting)]) if setting else {}
    if not commit:
        yield Side(f"with {setting}", settings=settings)
        return
    full = _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").decode().strip()
    label = " with ".join(filter(None, [full[:8], setting]))
    BUILD.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=f"{full[:12]}-", dir=BUILD))
    try:
        unpack(full, root)
        yield Side(label, root, python_for(root), settings)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def unpack(commit: str, root: Path) -> None:
    """Put the files of the commit into the folder, with the benchmarks of this checkout."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit))) as archive:
        archive.extractall(root, filter="data")
    shutil.rmtree(root / "benchmarks", ignore_errors=True)
    ignored = shutil.ignore_patterns("out", "__pycache__")
    shutil.copytree(ROOT / "benchmarks", root / "benchmarks", ignore=ignored)


def python_for(root: Path) -> Path:
    """Return this Python where the tree needs the same packages, else one that has its own."""
    wanted = packages(root)
    if wanted == packages(ROOT):
        return Path(sys.executable)
    venv = BUILD / f"venv-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    python, ready = venv / "bin" / "python", venv / ".ready"
    if not ready.exists():
        print(f"The packages of {root.name} differ: installing them in {venv}", flush=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(venv)],
            [str(python), *install, "--constraint", "constraints.txt", ".[embedded,dev]"],
        ):
            done = subprocess.run(command, cwd=root, capture_output=True, text=True)
            if done.returncode:
                raise NoTree(f"cannot install the packages of {root.name}: {done.stderr[-1000:]}")
        ready.touch()
    return python


def packages(root: Path) -> str:
    """Return what decides which packages a tree is run with."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    asked = [project["requires-python"], project["dependencies"], project["optional-dependencies"]]
    return f"{asked}\n{(root / 'constraints.txt').read_text()}"


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise NoTree(f"a setting is written NAME=VALUE, not {text!r}")
    return name, value


def _git(*arguments: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        raise NoTree("another commit cannot be had without git")
    done = subprocess.run([git, *arguments], cwd=ROOT, capture_output=True)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoTree(said[-1] if said else f"no commit is called {arguments[-1]!r}")
    return done.stdout
