"""A handler that has a file parsed in a sandbox."""

from __future__ import annotations

from typing import Any

import jobs


class Parse(jobs.Payload, kind="test.parse"):
    path: str
    act: str
    cpu: int = 10


@jobs.handler(Parse, timeout=60)
def parse(ctx: jobs.Context, payload: Parse) -> dict[str, Any]:
    """Return how the parser has ended."""
    from jobs import sandbox

    limits = sandbox.Limits(cpu=payload.cpu, wall=50)
    options = {"act": payload.act}
    found = sandbox.run("tests.sandbox.parsers", payload.path, limits, options=options)
    return {"status": found.status, "value": found.value}
