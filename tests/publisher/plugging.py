"""A distribution that registers a connector, as one that is installed does."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path
from unittest.mock import patch

from jobs import registry
from publisher import channels, handlers, payloads


def distribution(folder: Path, points: Mapping[str, str], name: str = "pager-connector") -> None:
    """Write what the installation of a distribution leaves behind, in a folder of the path."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{channels.GROUP}]", *(f"{key} = {value}" for key, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


@contextmanager
def plugged(folder: Path) -> Iterator[channels.Found]:
    """Let the distributions of a folder be found, as at the start of a process."""
    with (
        patch.object(sys, "path", [str(folder), *sys.path]),
        patch.object(channels, "_found", None),
    ):
        invalidate_caches()
        found = channels.found()
        made = {one: payloads.made_for(one) for one in found.connectors}
        for one, payload in made.items():
            handlers.register(one, payload)
        try:
            with patch.dict(payloads.PAYLOADS, made):
                yield found
        finally:
            for one in made:
                registry.unregister(f"publisher.{one}")
