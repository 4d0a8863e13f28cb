"""``manage.py jobs web``: pages, API and sockets of the project, by uvicorn."""

from __future__ import annotations

import gc
import sys
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import suppress
from importlib import import_module
from typing import Any

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from jobs.addresses import is_loopback
from jobs.cli.verb import Options, Verb
from jobs.errors import ConfigError

GRACE = 3
"""Seconds that requests under way have when the server is asked to end."""
SWITCH = 0.001
"""Seconds for which one thread computes while others could; Python's own are 0.005."""


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
    parser.add_argument(
        "--allow-debug",
        action="store_true",
        help="serve other machines although DEBUG is on, which shows them code and settings",
    )


def application() -> str:
    """Return ASGI_APPLICATION; raise ConfigError if it is not set."""
    name = getattr(settings, "ASGI_APPLICATION", None)
    if name:
        return str(name)
    package = str(getattr(settings, "ROOT_URLCONF", "")).rpartition(".")[0] or "yourproject"
    raise ConfigError(
        f"the web server needs the setting ASGI_APPLICATION, such as '{package}.asgi.application'"
    )


def served(name: str) -> Any:
    """Return what uvicorn serves: with DEBUG, static files too, as ``runserver`` does."""
    if settings.DEBUG and apps.is_installed("django.contrib.staticfiles"):
        from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler

        with suppress(ImportError):  # of which uvicorn says what is wrong
            return ASGIStaticFilesHandler(import_string(name))
    module, _, attribute = name.rpartition(".")
    with suppress(ImportError):
        import_module(module)
    return f"{module}:{attribute}"


def run(options: Options) -> int:
    import uvicorn

    from jobs.cli import protocols

    host, _, port = options["address"].rpartition(":")
    host = host.strip("[]")
    if settings.DEBUG and not options["allow_debug"] and not is_loopback(host):
        raise ConfigError(
            f"DEBUG is on, and {host} can be reached by other machines, which would see code and "
            "settings on every error page; set DEBUG = False, or add --allow-debug"
        )
    app = served(application())
    # What is there by now stays: looking through it for garbage would stop everybody for a while.
    gc.collect()
    gc.freeze()
    # Requests that wait for the database take turns with those that compute: each turn costs this
    # much.
    sys.setswitchinterval(SWITCH)
    try:
        uvicorn.run(
            app,
            host=host,
            port=int(port),
            http=protocols.Http,  # httptools would take headers without an end
            ws=protocols.Socket,
            ws_per_message_deflate=False,  # each client would have a compressor, for the same words
            ws_max_size=4096,  # clients have nothing to say
            lifespan="off",
            proxy_headers=False,  # API_PROXIES says whose addresses are believed
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=GRACE,
        )
    except SystemExit as ended:  # it could not start, and has said why
        return 1 if ended.code else 0
    return 0


VERB = Verb(
    "web",
    "serve pages, API and live events (ASGI, by uvicorn)",
    add_arguments,
    run,
    is_service=True,
)
