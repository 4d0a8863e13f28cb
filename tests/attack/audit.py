"""Processes that note whatever is unpickled in them once they have started."""

import os
import sys
from typing import Any

from django.apps import AppConfig

FILE = "FLEET_AUDIT"


class Audit(AppConfig):
    """Nothing may be looked up for a pickle any more: it is noted, and refused."""

    name = "tests.attack.audit"
    label = "audit"

    def ready(self) -> None:
        path = os.environ[FILE]

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            if event != "pickle.find_class":
                return
            line = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(line, f"{sys.argv}: {arguments}\n".encode())
            os.close(line)
            raise RuntimeError(f"unpickles {arguments}")

        sys.addaudithook(hear)
