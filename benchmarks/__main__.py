"""``python -m benchmarks [ONLY …]``: measure, print a table, write out/latest.json."""

from __future__ import annotations

import argparse
import difflib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import compare, report, runs, trees
from benchmarks.runs import Run, Side
from benchmarks.workloads import BY_NAME, WORKLOADS
from config.embedded import EmbeddedError


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("only", nargs="*", metavar="ONLY", help="workloads to run (default: all)")
    made.add_argument("--list", action="store_true", help="name the workloads and end")
    made.add_argument(
        "--quick", action="store_true", help="small sizes, to see that it works: out/quick.json"
    )
    made.add_argument(
        "--against", metavar="COMMIT", help="compare with the library of this commit, in turns"
    )
    made.add_argument(
        "--against-setting", metavar="NAME=VALUE", help="… with a setting of PostgreSQL changed"
    )
    made.add_argument(
        "--runs", type=int, default=5, metavar="N", help="runs of each side of a comparison (5)"
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
            return refused(f"no workload is called {name!r}; {hint}")
    if options.runs < 1:
        return refused("--runs must be at least 1")
    names = options.only or list(BY_NAME)
    # Turned into an exception, so that servers and workers are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def run(name: str, side: Side) -> Run:
        return runs.run(name, side, quick=options.quick)

    try:
        report_name = report.name(quick=options.quick)
        if not (options.against or options.against_setting):
            return measure(names, lambda name: run(name, trees.this()), report_name)
        with trees.other(options.against, options.against_setting) as other:
            return compare.run(names, trees.this(), other, run, options.runs, report_name)
    except (trees.NoTree, EmbeddedError) as error:
        return refused(str(error))


def refused(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


def measure(names: Sequence[str], run: Callable[[str], Run], report_name: str) -> int:
    """Run the workloads, each once; return 1 when one of them broke."""
    path = report.OUT / f"{report_name}.json"
    content: dict[str, Any] = {"workloads": {}}
    done: list[Run] = []
    for name in names:
        found = run(name)
        if not any(before.machine for before in done) and found.machine:
            content |= {"machine": found.machine, "versions": found.versions}
            print(report.head(found), flush=True)
        done.append(found)
        print(report.rows(found), flush=True)
        content["workloads"][name] = found.to_json()
        report.write(path, content)
    print(f"{report.closing(done)}\n\nwritten: {path}")
    return int(any(found.result is None for found in done))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
