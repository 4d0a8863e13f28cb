"""``python -m benchmarks.one NAME REPORT [--quick]``: measure one workload on servers given to it.

The parent process starts the servers and names them in ``BENCH_STAGE``. Since every workload has
servers and a process of its own, none can be disturbed by what an earlier one left behind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.bench import Bench
from benchmarks.processes import ROOT
from benchmarks.stage import Stage
from benchmarks.workloads import BY_NAME, Workload

STAGE = "BENCH_STAGE"


def main(name: str, path: str, quick: bool) -> int:
    # Turned into an exception, so that workers end on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with closing(Bench(Stage.from_json(os.environ[STAGE]), quick)) as b:
        found = measured(BY_NAME[name], b)
    Path(path).write_text(json.dumps(found))
    return 0


def measured(workload: Workload, b: Bench) -> dict[str, Any]:
    """Return what the workload found, or as ``broke`` why it did not come to its end."""
    found: dict[str, Any] = {}
    try:
        b.environment |= workload.variables
        _set_up_django(b)
        found |= {"machine": machine.machine(b), "versions": machine.versions(b)}
        with b.watching() as seen:
            result = workload.run(b)
        # Once more by part, where the workload tells: a short disturbance shows only there.
        disturbance = max(seen["others_cores"], result.disturbance)
        found |= {"result": result.to_json(), "others_cores": disturbance}
    except Exception as error:
        found |= {"broke": _words(error), "traceback": traceback.format_exc() + b.last_words()}
    return found


def _set_up_django(b: Bench) -> None:
    os.environ.update(b.environment)
    import django
    from django.core.management import call_command

    import jobs

    if not Path(jobs.__file__).is_relative_to(ROOT):
        raise RuntimeError(f"the library to be measured is in {ROOT}, not {jobs.__file__}")
    django.setup()
    call_command("migrate", verbosity=0)


def _words(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0][:200] if said else ''}".rstrip(": ")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], "--quick" in sys.argv[3:]))
