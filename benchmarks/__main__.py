"""``python -m benchmarks [ONLY …]``: measure, print a table, write out/latest.json."""

from __future__ import annotations

import argparse
import difflib
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks import bench, report
from benchmarks.workloads import BY_NAME, WORKLOADS, Workload


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("only", nargs="*", metavar="ONLY", help="workloads to run (default: all)")
    made.add_argument("--list", action="store_true", help="name the workloads and end")
    made.add_argument(
        "--quick", action="store_true", help="small sizes, to see that it works: out/quick.json"
    )
    return made


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    if options.list:
        for workload in WORKLOADS:
            print(f"{workload.name:<22} {workload.about}")
        return 0
    for name in options.only:
        if name not in BY_NAME:
            near = difflib.get_close_matches(name, BY_NAME, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "--list names them all"
            print(f"no workload is called {name!r}; {hint}", file=sys.stderr)
            return 2
    chosen = [BY_NAME[name] for name in options.only] or WORKLOADS
    # Turned into an exception, so that servers and workers are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return measure(chosen, quick=options.quick)


def measure(chosen: Sequence[Workload], *, quick: bool) -> int:
    """Runs the workloads; answers 1 when one of them broke."""
    broken = 0
    path = report.OUT / ("quick.json" if quick else "latest.json")
    with bench.opened(quick) as b:
        content: dict[str, Any] = {
            "machine": report.machine(b),
            "versions": report.versions(b),
            "workloads": {},
        }
        print(f"fsync of the data folder: {b.fsync_ms:.3f} ms\n\n{report.head()}", flush=True)
        for workload in chosen:
            began = time.monotonic()
            try:
                result = workload.run(b)
            except RuntimeError as error:
                broken = 1
                print(f"{workload.name:<22} broke: {error}", flush=True)
                continue
            content["workloads"][workload.name] = {
                **result.to_json(),
                "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "took_s": round(time.monotonic() - began, 1),
            }
            print(report.rows(workload.name, result), flush=True)
            report.write(path, content)
    print(f"\nwritten: {path}")
    return broken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
