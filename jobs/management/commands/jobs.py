"""``manage.py jobs …``: everything that is done with jobs from the command line."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

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
    watch,
    web,
    worker,
)
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
    demo,
)
VERBS = {verb.name: verb for verb in (*(module.VERB for module in MODULES), *operating.VERBS)}


class Command(BaseCommand):
    help = "Run, watch and mend background jobs."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        for verb in VERBS.values():
            verb.add_arguments(verbs.add_parser(verb.name, help=verb.help, description=verb.help))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            code = VERBS[options["verb"]].run(options)
        except JobsError as error:
            raise CommandError(str(error)) from error
        if code:
            sys.exit(code)
