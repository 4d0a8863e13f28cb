"""The HTTP server of the stand-ins."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Serves each connection in a thread, and prints nothing where the caller hangs up."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless the caller has gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)
