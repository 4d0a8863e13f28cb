"""Names that are imported when they are first used: Django imports ``jobs`` before models exist."""

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any


def attach(
    module: str, homes: Mapping[str, str], submodules: Collection[str] = ()
) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the module that takes each name from the module it lives in."""

    def __getattr__(name: str) -> Any:
        if name in submodules:
            return importlib.import_module(f"{module}.{name}")
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[module], name, value)
        return value

    return __getattr__


def exports(module: str, home: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the module that takes what the home exports."""

    def __getattr__(name: str) -> Any:
        # Imported modules ask for names that begin so, before models may be loaded.
        if name.startswith("_") or name not in (source := importlib.import_module(home)).__all__:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(source, name)
        setattr(sys.modules[module], name, value)
        return value

    return __getattr__
