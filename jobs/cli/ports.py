"""The address that a web server is about to listen at."""

from __future__ import annotations

import errno
import socket

from jobs.errors import ConfigError


def check_free(address: str) -> None:
    """Raise ConfigError if another program already listens at the address."""
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host.strip("[]"), int(port)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:  # others may pass, as an interface that comes up
                raise ConfigError(f"another program listens at {address}") from None
