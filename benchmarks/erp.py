"""An ERP whose every call takes a while: ``python -m benchmarks.erp PORT MILLISECONDS CUSTOMERS``.

Of each write it takes, the file named by BENCH_OUT has one record more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import records
from config.standins.erp.server import Erp
from config.standins.erp.state import State


class Book(State):
    """What the ERP knows, in memory alone: its disk is not what is measured."""

    latency = 0.0

    def save(self) -> None:
        """Keep nothing."""

    def write(self, type: str, reference: str, data: dict[str, Any]) -> str:
        id = super().write(type, reference, data)
        records.append(records.TAKEN)
        return id

    @contextmanager
    def call(self, agent: str, what: str, session: str) -> Iterator[None]:
        with super().call(agent, what, session):
            time.sleep(self.latency)
            yield

    def login(self, agent: str, password: str) -> str:
        time.sleep(self.latency)
        return super().login(agent, password)


def main(port: int, milliseconds: int, customers: int) -> None:
    erp = Erp(Path(tempfile.mkdtemp(prefix="bench-erp-")), port)
    book = Book(Path(tempfile.mkdtemp(prefix="bench-erp-")) / "erp.json")
    book.latency = milliseconds / 1000
    book.data["customers"] |= {
        f"C-{n:05}": {"name": f"Customer {n}", "vatNumber": f"IT{n:011}", "street": f"Via {n}",
                      "postalCode": "37100", "phone": f"+39 {n}", "email": f"c{n}@customers.test"}
        for n in range(customers - len(book.data["customers"]))
    }  # fmt: skip
    erp.book = book
    erp.server.serve_forever(0.1)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
