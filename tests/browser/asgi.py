"""An ASGI server in a thread of the tests, which can be ended and begun again."""

from __future__ import annotations

import socket
import threading

import uvicorn
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from tests.wait import wait_until


class AsgiServer:
    """Serves the admin with streams, always at the same address."""

    def __init__(self) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.url = f"http://localhost:{self.port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        application = ASGIStaticFilesHandler(get_asgi_application())
        config = uvicorn.Config(
            application, host="127.0.0.1", port=self.port, lifespan="off", log_config=None,
            access_log=False, timeout_graceful_shutdown=10,
        )  # fmt: skip
        server = self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=server.run, daemon=True)
        self._thread.start()
        wait_until(lambda: server.started)

    def stop(self) -> None:
        """Nobody can connect any more, and whoever listens is cut off."""
        if self._server is None or self._thread is None:
            return
        server = self._server

        def cut() -> None:
            for listening in server.servers:
                listening.close()
            for connection in list(server.server_state.connections):
                connection.transport.close()
            server.should_exit = True

        server.servers[0].get_loop().call_soon_threadsafe(cut)
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._server = self._thread = None
