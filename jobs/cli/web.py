"""``manage.py jobs web``: pages, API and sockets of the project, by uvicorn."""

from __future__ import annotations

import gc
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import suppress
from importlib import import_module

from django.conf import settings

from jobs.cli.verb import Options, Verb
from jobs.errors import ConfigError

GRACE = 3
"""Seconds that requests under way have when the server is told to end."""


def address(text: str) -> str:
    """An argument like ``8000`` or ``127.0.0.1:8000``."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ArgumentTypeError(f"{text!r} is no address: write PORT or HOST:PORT")
    return f"{host or '127.0.0.1'}:{port}"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "address",
        type=address,
        nargs="?",
        default="127.0.0.1:8000",
        metavar="[HOST:]PORT",
        help="where to listen (default: 127.0.0.1:8000)",
    )


def run(options: Options) -> int:
    name = getattr(settings, "ASGI_APPLICATION", None)
    if not name:
        raise ConfigError("set ASGI_APPLICATION, like 'config.asgi.application'")
    import uvicorn

    module, _, attribute = name.rpartition(".")
    with suppress(ImportError):  # of which uvicorn says what is wrong
        import_module(module)
    # What is there by now stays: looking through it for garbage would stop everybody for a while.
    gc.collect()
    gc.freeze()
    host, _, port = options["address"].rpartition(":")
    try:
        uvicorn.run(
            f"{module}:{attribute}",
            host=host.strip("[]"),
            port=int(port),
            ws="websockets-sansio",
            ws_per_message_deflate=False,  # each client would have a compressor, for the same words
            ws_max_size=4096,  # clients have nothing to say
            lifespan="off",
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=GRACE,
        )
    except SystemExit as ended:  # it could not start, and has said why
        return 1 if ended.code else 0
    return 0


VERB = Verb("web", "serve pages, API and live events (ASGI, by uvicorn)", add_arguments, run)
