"""Serve the stand-in venue, and print the settings and the key that belong to it.

python -m config.standins.trading --port 8090
"""

from __future__ import annotations

import argparse
import signal
import sys

from config.standins.trading import Coinbase, new_account


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(prog="python -m config.standins.trading", description=__doc__)
    parser.add_argument("--port", type=int, default=8090, help="port on 127.0.0.1 (default: 8090)")
    venue = Coinbase(port=parser.parse_args().port).start()
    account = venue.add(new_account())
    account.fills = venue.market.fills()
    sys.stdout.write(
        f"COINBASE_URL={venue.url}\nHTTP_ALLOW=127.0.0.0/8\n"
        f"key name: {account.name}\nprivate key:\n{account.secret}\n"
    )
    sys.stdout.flush()
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    venue.stop()


if __name__ == "__main__":
    main()
