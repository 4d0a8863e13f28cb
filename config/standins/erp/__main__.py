"""``python -m config.standins.erp [--port 8765] [--folder FOLDER] [--certificate PEM]``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from config.standins.erp.server import Erp


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m config.standins.erp", description=__doc__)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--folder", type=Path, help="keeps its state; default: a temporary folder")
    parser.add_argument("--certificate", type=Path, help="PEM with key and certificate: speak TLS")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="erp-"))
    folder.mkdir(parents=True, exist_ok=True)
    erp = Erp(folder, given.port, given.certificate)
    sys.stdout.write(f"{erp.url}\n")
    sys.stdout.flush()
    try:
        erp.server.serve_forever(0.1)
    except KeyboardInterrupt:
        erp.server.server_close()


if __name__ == "__main__":
    main()
