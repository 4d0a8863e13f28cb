"""Serve both venues and the vendor of prices; print the settings and the keys that belong to them.

python -m config.standins.trading --port 8090
"""

from __future__ import annotations

import argparse
import signal
import sys

from config.standins.trading import Market, new_account, new_binance_account
from config.standins.trading.local import serving


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(prog="python -m config.standins.trading", description=__doc__)
    parser.add_argument(
        "--port", type=int, default=8090, help="port of Coinbase on 127.0.0.1 (default: 8090)"
    )
    trader, other = new_account(), new_binance_account()
    with serving(Market(), trader, other, parser.parse_args().port) as settings:
        sys.stdout.write("".join(f"{name}={value}\n" for name, value in settings.items()))
        sys.stdout.write(
            f"HTTP_ALLOW=127.0.0.0/8\n"
            f"Coinbase, key name: {trader.name}\nprivate key:\n{trader.secret}\n"
            f"Binance, key: {other.key}\nsecret: {other.secret}\n"
        )
        sys.stdout.flush()
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
