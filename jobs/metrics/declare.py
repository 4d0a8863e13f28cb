"""Metrics of apps: declared once, counted in every process, summed up at ``/metrics``.

::

    answers = metrics.counter("shop_answers_total", "Answers of the warehouse.", ["status"])
    waits = metrics.histogram("shop_answer_seconds", "How long it took.", buckets=(0.1, 1, 10))
    oldest = metrics.gauge("shop_oldest_order_seconds", "Age of the oldest.", read=age_of_oldest)

    answers.inc(status="ok")
    with waits.time():
        ...
"""

from __future__ import annotations

import math
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from jobs import histograms, redaction
from jobs.errors import ConfigError
from jobs.metrics.names import METRICS, Metric

OTHER = "other"
"""Label value of everything beyond the series that a metric may have."""
MOST = 100
"""Series of one metric, where its declaration says nothing else."""
MOST_EVER = 2000
REMEMBERED = 10
"""How many times that number of series a process keeps apart before it sums up the rest."""
LABEL_LIMIT = 100
"""Characters of a label's value."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL = re.compile(r"(?!__|le\Z)[a-zA-Z_][a-zA-Z0-9_]*\Z")
Labels = tuple[str, ...]
Read = Callable[[], "float | Mapping[Any, float] | None"]
"""By a text or a tuple of texts, where there are labels."""
M = TypeVar("M", bound="_Declared")


@dataclass(frozen=True, slots=True)
class Series:
    """A metric with values for its labels."""

    name: str
    labels: Labels
    bounds: tuple[float, ...] = ()


def shown(value: object) -> str:
    """Return the value of a label as everybody may see it."""
    return redaction.redact_text(str(value), limit=LABEL_LIMIT)


class _Declared:
    """The part that all metrics share."""

    def __init__(self, spec: Metric, most: int = MOST, bounds: tuple[float, ...] = ()) -> None:
        self.spec, self.most, self.bounds = spec, most, bounds
        self._series: dict[Labels, Series] = {}

    @property
    def name(self) -> str:
        return self.spec.name

    def __repr__(self) -> str:
        return f"<{self.spec.type} {self.name}>"

    def series(self, labels: Mapping[str, object]) -> Series:
        """Return the series of these labels, or that of all others once there are too many."""
        try:
            values = tuple(str(labels[name]) for name in self.spec.labels)
        except KeyError:
            values = None
        if values is None or len(labels) != len(values):
            wanted, given = ", ".join(self.spec.labels), ", ".join(labels)
            raise TypeError(f"{self.name} takes the labels ({wanted}), got ({given})")
        found = self._series.get(values)
        if found is None:
            if len(self._series) >= self.most * REMEMBERED:
                return self.other
            told = tuple(map(shown, values))
            found = self._series[values] = Series(self.name, told, self.bounds)
        return found

    @property
    def other(self) -> Series:
        """The series of everything beyond ``most``."""
        return Series(self.name, (OTHER,) * len(self.spec.labels), self.bounds)


class Counter(_Declared):
    """A number that only grows. Counting is independent of transactions."""

    def inc(self, amount: float = 1, /, **labels: object) -> None:
        """Add the amount, which is not negative."""
        from jobs.engine.metrics import recorder

        recorder.add(self.series(labels), _finite(amount, least=0.0))

    def value(self, **labels: object) -> float:
        """Return the sum over all processes; queries the database."""
        from jobs.engine import metrics

        return metrics.value(self.series(labels))


Unit = Literal["s", "ms"]


class Histogram(_Declared):
    """Numbers counted in buckets: durations, sizes."""

    def __init__(self, spec: Metric, most: int, bounds: tuple[float, ...], unit: Unit) -> None:
        super().__init__(spec, most, bounds)
        self._per_second = 1000 if unit == "ms" else 1

    def observe(self, number: float, /, **labels: object) -> None:
        """Count the number."""
        from jobs.engine.metrics import recorder

        number = _finite(number)
        recorder.observe(self.series(labels), number, bisect_left(self.bounds, number))

    @contextmanager
    def time(self, **labels: object) -> Iterator[None]:
        """Count the time that the block takes, in the histogram's unit, also where it raises."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.observe((time.monotonic() - begun) * self._per_second, **labels)


class Gauge(_Declared):
    """A number that goes up and down: the sum of what each process has set, or the result of a
    function that is called for each page."""

    def __init__(self, spec: Metric, most: int, read: Read | None) -> None:
        super().__init__(spec, most)
        self.read = read

    def set(self, number: float, /, **labels: object) -> None:
        """Set the value of this process, until it is set again or the process ends."""
        from jobs.engine.metrics import recorder

        if self.read is not None:
            raise TypeError(f"{self.name} is read, not set")
        recorder.set(self.series(labels), _finite(number))

    def value(self, **labels: object) -> float:
        """Return the sum over the live processes; queries the database."""
        from jobs.engine import metrics

        if self.read is not None:
            raise TypeError(f"{self.name} is read: call its function")
        return metrics.value(self.series(labels))


def counter(name: str, help: str, labels: Sequence[str] = (), *, most: int = MOST) -> Counter:
    """Declare a counter; its name ends in ``_total``."""
    if not name.endswith("_total"):
        raise ConfigError(f"metric {name!r}: the name of a counter ends in _total")
    return _declare(Counter(_spec(name, "counter", help, labels), _most(name, most)))


def histogram(
    name: str,
    help: str,
    labels: Sequence[str] = (),
    *,
    buckets: Sequence[float] = histograms.BOUNDS,
    unit: Unit = "s",
    most: int = MOST,
) -> Histogram:
    """Declare a histogram; ``buckets`` are the upper ends, of which there is one more.

    ``unit`` is what its ``time`` counts in: seconds, or milliseconds.
    """
    if unit not in ("s", "ms"):
        raise ConfigError(f"metric {name!r}: unit must be 's' or 'ms', got {unit!r}")
    bounds = tuple(map(float, buckets))
    if (
        not 1 <= len(bounds) <= 50
        or list(bounds) != sorted(set(bounds))
        or not all(map(math.isfinite, bounds))
    ):
        raise ConfigError(f"metric {name!r}: buckets must be 1 to 50 growing numbers")
    spec = _spec(name, "histogram", help, labels)
    return _declare(Histogram(spec, _most(name, most), bounds, unit))


def gauge(
    name: str,
    help: str,
    labels: Sequence[str] = (),
    *,
    read: Read | None = None,
    most: int = MOST,
) -> Gauge:
    """Declare a gauge.

    ``read`` is called whenever ``/metrics`` is requested, and returns the number, or a dict of
    numbers by label value (a tuple of values for several labels). It may query the database;
    statements are cancelled after three seconds.
    """
    return _declare(Gauge(_spec(name, "gauge", help, labels), _most(name, most), read))


_declared: dict[str, _Declared] = {}


def declared() -> Sequence[_Declared]:
    """Return all that were declared in this process, by their names."""
    return [_declared[name] for name in sorted(_declared)]


def most_of(name: str) -> int:
    """Return how many series the metric may have."""
    found = _declared.get(name)
    return MOST if found is None else found.most


def forget(*names: str) -> None:
    """Take back declarations; for tests."""
    for name in names:
        _declared.pop(name, None)


def _declare(made: M) -> M:
    taken = {one: metric.name for metric in METRICS for one in metric.series}
    taken |= {one: other.name for other in _declared.values() for one in other.spec.series}
    for one in made.spec.series:
        if one in taken:
            raise ConfigError(f"metric {made.name!r}: {taken[one]!r} is there already")
    _declared[made.name] = made
    return made


def _spec(name: str, type: str, help: str, labels: Sequence[str]) -> Metric:
    if not isinstance(name, str) or not _NAME.match(name) or len(name) > 200:
        raise ConfigError(f"metric {name!r}: a name has letters, digits, _ and :")
    if not help.strip():
        raise ConfigError(f"metric {name!r}: say in help what it counts")
    if isinstance(labels, str) or len(set(labels)) != len(labels) or len(labels) > 10:
        raise ConfigError(f"metric {name!r}: labels must be a list of up to 10 names")
    for label in labels:
        if not _LABEL.match(label):
            raise ConfigError(f"metric {name!r}: {label!r} cannot be a label")
    return Metric(name, type, tuple(labels), help)  # type: ignore[arg-type]


def _most(name: str, most: int) -> int:
    if not 1 <= most <= MOST_EVER:
        raise ConfigError(f"metric {name!r}: most must be 1 to {MOST_EVER}")
    return most


def _finite(number: float, least: float = -math.inf) -> float:
    if not math.isfinite(number) or number < least:
        raise ValueError(f"a metric takes no {number}")
    return float(number)
