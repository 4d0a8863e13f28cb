"""The groups of workers that the setting names, for those who start workers."""

from __future__ import annotations

from jobs import conf, groups
from jobs.errors import ConfigError
from jobs.groups import Group, Queues

WORKERS = "JOBS['WORKERS']"


def declared() -> dict[str, Group]:
    """Return the groups by their names."""
    return groups.parse(conf.settings().WORKERS)


def get(name: str) -> Group:
    """Return the group; raise ConfigError that names the nearest where there is none."""
    found = declared()
    if name not in found:
        raise ConfigError(f"{WORKERS} has no group {name!r}{groups.near(name, found)}")
    return found[name]


def queues_of(name: str, queues: list[str]) -> Queues:
    """Return what the group listens to, of all queues that handlers name."""
    if not (found := groups.queues_of(get(name), declared().values(), queues)):
        raise ConfigError(f"{WORKERS}: the other groups have every queue, and {name!r} has none")
    return found
