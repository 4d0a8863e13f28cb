"""``manage.py jobs startapp NAME``: a new app on these jobs, complete and with passing tests."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from django.core.management import call_command

import jobs
from jobs.cli.answers import say
from jobs.cli.verb import Options, Verb

SKELETON = Path(jobs.__file__).with_name("skeleton")
NEXT = """Created the app {name}. Next steps:

  1. Add "{name}" to INSTALLED_APPS, then run: python manage.py migrate
  2. Run its tests: python manage.py test {name}
  3. If your project has an API (see "The API" in the docs page on embedding), add its operations:
     from {name}.api import router; api.add_router("/{name}", router)
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="name of the app, a Python identifier")
    parser.add_argument(
        "directory", nargs="?", help="existing directory for its files (default: ./NAME)"
    )


def run(options: Options) -> int:
    name, directory = options["name"], options["directory"]
    call_command("startapp", name, *([directory] if directory else []), template=str(SKELETON))
    say(NEXT.format(name=name))
    return 0


VERB = Verb(
    "startapp", "create an app with models, jobs, API, admin and tests", add_arguments, run,
    is_checked=False,  # urls.py may import the app already
)  # fmt: skip
