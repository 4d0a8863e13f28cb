"""Run the stand-in until it is interrupted."""

from __future__ import annotations

import sys
import threading

from config.standins.publisher.server import Standin

if __name__ == "__main__":
    standin = Standin(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    standin.start()
    sys.stdout.write(f"listening on {standin.url}\n")
    sys.stdout.flush()
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        standin.stop()
