"""No text that a caller sends takes long: patterns and parsers grow no faster than their input."""

from __future__ import annotations

import importlib
import pkgutil
import re
import string
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.utils import translation

import emailgw
import jobs
from emailgw import addresses, html
from jobs import clockwork, jsontext, names
from jobs.admin.refusals import in_words
from jobs.api import requests
from jobs.errors import JobsError
from jobs.operate.query import parse
from tests.attack.slow import MOMENT, QUADRATIC, growth, seconds
from tests.attack.test_slow_texts import STARTS, mixes

OF_BODIES = (
    "<br ", "</td ", "</td", "<", "url ", "url(", "data:image/", "cid:", "X-Custom-", "a-", "-a",
    "1" * 4300 + ",", '"\\', "\\", '"a"', "*/1,", "1,", "payload.", "a:b ", "jd_live_",
)  # fmt: skip


def patterns() -> Iterator[Any]:
    """Every compiled pattern of the modules of the library and its apps, as it is used there."""
    for package in (jobs, emailgw):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations." in found.name or ".management." in found.name:
                continue
            module = importlib.import_module(found.name)
            source = Path(str(module.__file__)).read_text()
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern):
                    used = re.findall(rf"\b{name}\.(match|fullmatch|search|sub|findall)\(", source)
                    for how in sorted(set(used)):
                        yield pytest.param(value, how, id=f"{found.name}.{name}.{how}")


@pytest.mark.parametrize(("pattern", "how"), list(patterns()))
def test_every_pattern_takes_linear_time(pattern: re.Pattern[Any], how: str) -> None:
    act: Callable[[Any], object] = getattr(pattern, "findall" if how == "sub" else how)
    for part in (*STARTS, *OF_BODIES, *mixes()[:15], *string.punctuation):
        _check(pattern, act, part)


def _check(pattern: re.Pattern[Any], act: Callable[[Any], object], part: str) -> None:
    def run(text: str) -> object:
        return act(text.encode() if isinstance(pattern.pattern, bytes) else text)

    times, long = growth(run, part, 8000)
    assert times < QUADRATIC, (part, times, long)


NOW = datetime(2040, 1, 1, tzinfo=UTC)
PARSERS: dict[str, Callable[[str], object]] = {
    "query": lambda text: parse(text[:2000]),
    "cron": lambda text: clockwork.upcoming(clockwork.Cron(f"{text[:180]} * * * *", "UTC"), NOW, 5),
    "name": names.name_problem,
    "label": names.label_problem,
    "address": addresses._ADDRESS.match,
    "text of a page": html._BLOCK.findall,
    "words of a refusal": in_words,
    "body": lambda text: requests._check_json(text.encode()[: 1024 * 1024]),
    "payload": lambda text: jsontext.dumps({"text": text}, 1024 * 1024),
    "numbers": lambda text: jsontext._ENDLESS.search(text.encode()),
}
HOSTILE = (
    '"a\\"', "(", "a:b ", "OR ", "-", "kind:a ", "*/1,", "0-59/1,", "cannot a: it is ", "it is ",
    " : it is of the key , which job ", "[],", "[", '{"a":', '"a",', "1,", "1" * 4300 + ",", "<br ",
    "a.", "a@", "é", "\\u0000", "NaN,",
)  # fmt: skip


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_every_parser_is_done_in_a_moment(parser: Callable[[str], object]) -> None:
    for part in HOSTILE:
        for text in (part * (1_000_000 // len(part)), f"[{part * (900_000 // len(part))}1]"):

            def act(text: str = text) -> None:
                try:
                    with translation.override("it"):
                        parser(text)
                except (JobsError, requests.Unusable, jsontext.UnstorableValue):
                    pass

            assert seconds(act, 1) < MOMENT, part[:20]
