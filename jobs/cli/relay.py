"""``manage.py jobs relay``: move events into the feed, in a process of its own."""

from __future__ import annotations

from argparse import ArgumentParser

from jobs.cli.verb import Options, Verb
from jobs.engine.relay import Relay


def add_arguments(parser: ArgumentParser) -> None:
    """There is nothing to choose."""


def run(options: Options) -> int:
    Relay().run()
    return 0


VERB = Verb(
    "relay",
    "move events into the feed (any number may run; dispatchers do it, too)",
    add_arguments,
    run,
    is_service=True,
)
