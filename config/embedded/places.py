"""Where an embedded server keeps data, sockets and binaries, and who may enter.

PostgreSQL refuses to run as root, so root's servers run as ``nobody``. Folders then come in
two kinds: ``own_folder`` belongs to this user and lets the server pass through; inside it
``server_folder`` belongs to the server alone.
"""

import hashlib
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from config.embedded.errors import EmbeddedError

# Not $TMPDIR or $XDG_RUNTIME_DIR: every session of a user must find the same sockets, and a
# socket's path is limited to about 100 bytes.
SHORT = Path("/tmp")  # noqa: S108 - own_folder refuses what another user prepared there
LASTING = Path("/var/tmp")  # noqa: S108


@dataclass(frozen=True)
class User:
    uid: int
    gid: int


def server_user() -> User:
    if os.geteuid() != 0:
        return User(os.geteuid(), os.getegid())
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return User(65534, 65534)
    return User(nobody.pw_uid, nobody.pw_gid)


def own_folder(path: Path) -> Path:
    """``path`` is a real folder of this user in which nobody else can write or look around."""
    return _folder(path, os.geteuid(), 0o711 if os.geteuid() == 0 else 0o700)


def server_folder(path: Path) -> Path:
    """``path``, inside an own folder, is a real folder that only the server can enter."""
    user = server_user()
    folder = _folder(path, os.geteuid(), 0o700, also=user.uid)
    if os.geteuid() != user.uid:
        os.chown(folder, user.uid, user.gid, follow_symlinks=False)
    return folder


def data_folder(path: Path) -> Path:
    """``path`` is a folder of this user in which nobody else can write."""
    if not path.exists():
        return own_folder(path)
    found = path.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise EmbeddedError(f"{path} is not a folder")
    if found.st_uid != os.geteuid():
        raise EmbeddedError(f"{path} belongs to user {found.st_uid}; set JOBDESK_DATA")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EmbeddedError(f"others may write in {path}; chmod it, or set JOBDESK_DATA")
    return path


def home(folder: Path) -> Path:
    """The folder for a server's files: ``folder``, or a lasting stand-in the server can reach."""
    if server_user().uid == os.geteuid():
        return folder
    # Once there is a stand-in, it stays: it holds the data.
    stand_in = LASTING / named(folder)
    if reachable(folder) and not _is_own(stand_in):
        return folder
    return stand_in


def sockets(folder: Path) -> Path:
    return SHORT / named(folder)


def named(folder: Path) -> str:
    return f"jobdesk-{os.geteuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


def reachable(path: Path) -> bool:
    """Whether the server's user may pass through every folder above ``path``."""
    user = server_user()
    return user.uid == os.geteuid() or all(
        _may_enter(parent.stat(), user) for parent in path.parents if parent.exists()
    )


def _is_own(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _may_enter(folder: os.stat_result, user: User) -> bool:
    if folder.st_uid == user.uid:
        return bool(folder.st_mode & stat.S_IXUSR)
    if folder.st_gid == user.gid:
        return bool(folder.st_mode & stat.S_IXGRP)
    return bool(folder.st_mode & stat.S_IXOTH)


def _folder(path: Path, uid: int, mode: int, *, also: int | None = None) -> Path:
    try:
        path.mkdir(mode=mode, parents=True)
    except FileExistsError:
        pass
    except OSError as error:
        raise EmbeddedError(f"cannot create {path}: {error.strerror}") from error
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise EmbeddedError(f"{path} is not a folder; remove it")
    if found.st_uid not in (uid, also):
        raise EmbeddedError(f"{path} belongs to user {found.st_uid}; remove it")
    if stat.S_IMODE(found.st_mode) != mode:
        path.chmod(mode)
    return path
