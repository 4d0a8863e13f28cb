"""Ports on loopback for servers that are reached over TCP."""

import random
import socket

HOST = "127.0.0.1"
RANGE = range(20000, 32000)
"""Below the ports that the kernel gives to outgoing connections: a server can come back to its
own after a restart."""


def free() -> int:
    """Return a port that nothing listens on."""
    port = random.choice(RANGE)
    while not is_free(port):
        port = random.choice(RANGE)
    return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
