"""All providers of posts, on one port: ``python -m benchmarks.wire PORT``.

Of each post that it is sent, the file named by BENCH_OUT has one record: when the post was due,
if its text says so, and when its request came.
"""

from __future__ import annotations

import re
import sys
import threading
import time

from benchmarks import records
from config.standins.publisher import Standin
from config.standins.publisher.server import Request

LATENCY = 0.05
"""Seconds of a call: no provider answers at once."""
_DUE = re.compile(r"due (\d+\.\d+)")


class Wire(Standin):
    """Notes the request of every post, and takes its time for it."""

    def await_others(self, request: Request) -> None:
        super().await_others(request)
        if request.method == "POST" and request.path.endswith("/feed"):
            found = _DUE.search(str(request.body.get("message", "")))
            due = float(found[1]) - time.time() + time.monotonic() if found else 0.0
            records.append(records.TAKEN, due)
            time.sleep(LATENCY)


if __name__ == "__main__":
    Wire(int(sys.argv[1])).start()
    threading.Event().wait()
