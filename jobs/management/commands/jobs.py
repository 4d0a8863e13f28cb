"""``manage.py jobs …``: everything that is done with jobs from the command line."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs import logs
from jobs.cli import (
    backfill,
    bulk,
    demo,
    dispatch,
    doctor,
    explain,
    keys,
    openapi,
    operating,
    outbox,
    pauses,
    queues,
    relay,
    retention,
    run,
    schedules,
    startapp,
    watch,
    web,
    worker,
)
from jobs.cli.verb import Verb
from jobs.errors import JobsError

MODULES = (
    run,
    worker,
    dispatch,
    relay,
    web,
    doctor,
    explain,
    pauses,
    queues,
    outbox,
    retention,
    schedules,
    keys,
    backfill,
    bulk,
    watch,
    openapi,
    startapp,
    demo,
)


def commands() -> dict[str, Verb]:
    """Return every command, by name."""
    own = {c.name: c for c in (*(module.VERB for module in MODULES), *operating.commands())}
    apps = operating.of_apps()
    return own | {f"app-{c.name}" if c.name in own else c.name: c for c in apps}


class Command(BaseCommand):
    help = "Run, watch and mend background jobs."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        for verb in commands().values():
            verb.add_arguments(verbs.add_parser(verb.name, help=verb.help, description=verb.help))

    def execute(self, *args: Any, **options: Any) -> str | None:
        if not commands()[options["verb"]].is_checked:
            self.requires_system_checks = []
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        verb = commands()[options["verb"]]
        if verb.is_service:
            logs.write_somewhere()
        try:
            code = verb.run(options)
        except JobsError as error:
            raise CommandError(str(error)) from error
        if code:
            sys.exit(code)
