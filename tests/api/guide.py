"""The conversations of docs/api.md, and its table of endpoints: ``python -m tests.api.guide``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).parents[2] / "docs" / "api.md"
TITLE = "## Every endpoint\n"


class Exchange(NamedTuple):
    """A request of the document, and what it says of the answer."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    status: int
    answer: dict[str, str]
    data: Any


def exchanges() -> Iterator[Exchange]:
    """Each that stands in a block ``http``, in their order."""
    for block in re.findall(r"^```http\n(.*?)^```", FILE.read_text(), re.MULTILINE | re.DOTALL):
        for asked, told in re.findall(
            r"(.*?)\n\n(\d{3}.*?)(?:\n\n|\Z)", block.strip() + "\n\n", re.S
        ):
            request, headers, body = _parts(asked)
            status, answer, data = _parts(told)
            method, path = request.split(" ", 1)
            yield Exchange(method, path, headers, body, int(status), answer, data)


def _parts(text: str) -> tuple[str, dict[str, str], Any]:
    first, *rest = text.strip().split("\n")
    headers, body = {}, ""
    for line in rest:
        found = re.fullmatch(r"([A-Z][\w-]+): (.*)", line)
        if found and not body:
            headers[found[1]] = found[2]
        else:
            body += line + "\n"
    return first, headers, json.loads(body) if body else None


def table() -> str:
    """Every endpoint, as Markdown."""
    from tests.api import operations

    lines = ["| | | needs |", "|---|---|---|"]
    for op in sorted(operations.ALL, key=lambda op: (op.path, op.method)):
        words = op.details["summary"].replace("|", "\\|")
        lines.append(
            f"| `{op.method} {op.path}` | {words} | {f'`{op.needs}`' if op.needs else ''} |"
        )
    return "\n".join(lines) + "\n"


def written(text: str) -> str:
    """The document with the table that is true now."""
    return text.partition(TITLE)[0] + f"{TITLE}\n{table()}"


if __name__ == "__main__":
    import django

    django.setup()
    FILE.write_text(written(FILE.read_text()))
