"""The documents, and the code that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]


class Block(NamedTuple):
    """A block of Python: the file that its first line names, or "", and where it stands."""

    file: str
    code: str
    line: int

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")

    @property
    def in_place(self) -> str:
        """The code below as many empty lines as are above it in the document."""
        return "\n" * self.line + self.code

    @property
    def calls_a_server(self) -> bool:
        return "from jobs.client import" in self.code


def text(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(name), re.MULTILINE | re.DOTALL)


def python(name: str) -> Iterator[Block]:
    """Yield the Python blocks of a document in their order, also those in lists."""
    page = text(name)
    pattern = r"^( *)```python\n(.*?)^\1```"
    for found in re.finditer(pattern, page, re.MULTILINE | re.DOTALL):
        code = re.sub(rf"^{found[1]}", "", found[2], flags=re.MULTILINE)
        file = re.match(r"# ([\w/]+\.py)\b", code)
        yield Block(file[1] if file else "", code, page.count("\n", 0, found.start(2)))


def install() -> Block:
    """Return the settings of every project that has the jobs."""
    return next(python("docs/embedding.md"))


PAGES = [name for name in NAMES if any(python(name))]
"""The documents that show Python."""
