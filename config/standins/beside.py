"""Run a command beside the servers that stand in for what is not configured, while DEBUG is on.

python -m config.standins.beside --port 8000 manage.py jobs run --web 8000
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from config import environment
from config.embedded.client import data_folder

EXTRA = ("numpy", "jwt", "cryptography")
KEY_NAME = "organizations/local/apiKeys/trader"


def main() -> int:
    """Return the exit code of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m config.standins.beside", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--port", type=int, required=True, help="where the command serves pages")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="arguments of Python")
    given = parser.parse_args()
    return run(given.port, given.command)


def run(port: int, command: list[str]) -> int:
    """Run the command beside what it needs; return its exit code."""
    is_debug = environment.flag("DEBUG", default=not os.environ.get("DATABASE_URL"))
    if not is_debug or any(find_spec(name) is None for name in EXTRA):
        return _run(command)
    with venue(data_folder() / "standins", sys.stdout.write) as settings:
        os.environ.update(settings)
        os.environ.update(ai_service(port))
        sys.stdout.flush()
        return _run(command)


@contextmanager
def venue(folder: Path, say: Callable[[str], Any]) -> Iterator[dict[str, str]]:
    """Serve venues unless one is configured; yield their settings.

    The keys of their accounts are kept in the folder, so that links work after a restart.
    """
    if os.environ.get("COINBASE_URL"):
        yield {}
        return
    from config.standins.trading import (
        BinanceAccount,
        Market,
        known_account,
        new_account,
        new_binance_account,
    )
    from config.standins.trading.local import serving

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem, pair = folder / "coinbase.pem", folder / "binance.key"
    fresh = new_binance_account()
    _kept(pem, new_account().secret)
    _kept(pair, f"{fresh.key}\n{fresh.secret}\n")
    # The same fills all day, however often it is started.
    market = Market(datetime.now(UTC).replace(hour=0))
    key, secret = pair.read_text().split()
    other = BinanceAccount(key, secret)
    with serving(market, known_account(KEY_NAME, pem.read_text()), other) as settings:
        say(
            f"Venues with twelve trades stand in for Coinbase and Binance, since COINBASE_URL is "
            f"not set.\nLink them in the admin, or by the API. Coinbase: log in, or key name "
            f"{KEY_NAME} with the private key in {pem}. Binance: key and secret in {pair}\n"
        )
        allowed = os.environ.get("HTTP_ALLOW", "")
        settings["HTTP_ALLOW"] = ",".join(filter(None, (allowed, "127.0.0.0/8")))
        given = {name for name in settings if os.environ.get(name) and name != "HTTP_ALLOW"}
        yield {name: value for name, value in settings.items() if name not in given}


def _kept(file: Path, fresh: str) -> None:
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(fresh)


def ai_service(port: int) -> dict[str, str]:
    """Return settings by which the project asks its own AI service, unless there are some."""
    if any(os.environ.get(name) for name in ("AI_BASE_URL", "HEURISTICS_ONLY")):
        return {}
    return {
        "AI_BASE_URL": f"http://127.0.0.1:{port}/ai", "AI_HMAC_KEY_ID": "local",
        "AI_HMAC_SECRET": secrets.token_hex(16),
    }  # fmt: skip


def _run(command: list[str]) -> int:
    process = subprocess.Popen([sys.executable, *command])
    # A terminal interrupts both; the command decides how it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
