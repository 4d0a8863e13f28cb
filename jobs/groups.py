"""Groups of workers: each has queues, processes and a concurrency of its own.

``JOBS["WORKERS"]`` names them, ``manage.py jobs run`` starts them. Executors of different groups
are different processes, so what is done to a stuck job of one group never touches another's.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.names import name_problem

Queues = tuple[tuple[str, int], ...]
"""Names and weights."""
_KEYS = ("queues", "processes", "concurrency")
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Group:
    """One group; sizes that it does not name are those of the command line."""

    name: str
    queues: Queues = ()
    """Empty for those that no other group names."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """``processes`` and ``concurrency``, where the group declares them."""


def parse(workers: Mapping[str, Any]) -> dict[str, Group]:
    """Return the groups of a setting without problems, by their names."""
    return {
        name: Group(
            name,
            weighted(rules.get("queues", ())),
            {key: rules[key] for key in ("processes", "concurrency") if key in rules},
        )
        for name, rules in workers.items()
    }


def queues_of(group: Group, groups: Iterable[Group], queues: Iterable[str]) -> Queues:
    """Return what the group listens to: its queues, or those that no group names."""
    if group.queues:
        return group.queues
    named = {queue for other in groups for queue, _ in other.queues}
    return tuple((queue, 1) for queue in sorted(set(queues) - named))


def weighted(items: Iterable[str]) -> Queues:
    """Return the queues of texts like ``email`` or ``default:2``; raises ValueError.

    Names may contain colons themselves; only a last part that is a number is a weight.
    """
    queues: dict[str, int] = {}
    for item in items:
        name, _, last = item.strip().rpartition(":")
        if name and last.isascii() and last.isdigit():
            weight = int(last[:9])
        else:
            name, weight = item.strip(), 1
        if problem := name_problem(name):
            raise ValueError(f"queue {problem}")
        if not 1 <= weight <= 1000:
            raise ValueError(f"the weight of {name!r} must lie between 1 and 1000")
        if name in queues:
            raise ValueError(f"queue {name!r} is given twice")
        queues[name] = weight
    return tuple(queues.items())


def problems(workers: Mapping[str, Any]) -> Iterator[str]:
    """Return what is wrong with the setting, naming the key."""
    for name, rules in workers.items():
        place = f"JOBS['WORKERS'][{name!r}]"
        if problem := name_problem(name):
            yield f"JOBS['WORKERS']: group {problem}"
        elif len(str(name)) > _LONGEST_NAME:
            yield f"{place}: a name has at most {_LONGEST_NAME} characters"
        if isinstance(rules, Mapping):
            yield from _problems(place, rules)
        else:
            yield f"{place} must be a dict, got {rules!r}"
    rest = [n for n, r in workers.items() if isinstance(r, Mapping) and "queues" not in r]
    if len(rest) > 1:
        yield f"JOBS['WORKERS']: {rest[0]!r} and {rest[1]!r} lack queues; only one takes the rest"


def _problems(place: str, rules: Mapping[object, object]) -> Iterator[str]:
    for key in rules:
        if key not in _KEYS:
            yield f"{place} has no key {key!r}{near(str(key), _KEYS)}"
    queues = rules.get("queues", ["default"])
    if (
        not isinstance(queues, list | tuple)
        or not queues
        or not all(isinstance(queue, str) for queue in queues)
    ):
        yield f"{place}['queues'] must be a list like ['email', 'default:2'], got {queues!r}"
    else:
        try:
            weighted(queues)
        except ValueError as error:
            yield f"{place}['queues']: {error}"
    for key in ("processes", "concurrency"):
        size = rules.get(key, 1)
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 1000:
            yield f"{place}[{key!r}] must be a whole number from 1 to 1000, got {size!r}"


def near(name: str, known: Collection[str]) -> str:
    """Return the question whether the nearest of the known names was meant, if any is near."""
    found = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
