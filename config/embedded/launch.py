"""Become a server that does not outlive its parent. Run as a script, never imported.

    python -I -S launch.py PARENT_PID DEATH_SIGNAL UID GID PROGRAM ARGUMENTS...

A script of its own, because code between fork and exec is unsafe in a threaded parent.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def become(parent: int, death_signal: int, uid: int, gid: int, command: list[str]) -> None:
    # Before setuid: nobody may be unable to enter the folder of the Python installation.
    libc = ctypes.CDLL(None)
    os.umask(0o077)
    if os.geteuid() != uid:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    # After setuid: changing the user clears the death signal.
    if death_signal and sys.platform == "linux":
        libc.prctl(PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != parent:
            sys.exit("the parent died first")
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    pid, number, user, group = map(int, sys.argv[1:5])
    become(pid, number, user, group, sys.argv[5:])
