"""``manage.py jobs openapi``: the OpenAPI document of the REST API."""

from __future__ import annotations

import json
from argparse import ArgumentParser

from jobs.cli.answers import say
from jobs.cli.verb import Options, Verb


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--prefix", default="/api/v1/", metavar="PATH", help="where it is mounted (/api/v1/)"
    )


def run(options: Options) -> int:
    from jobs.api import build_api

    schema = build_api(urls_namespace="jobs-api-document").get_openapi_schema(
        path_prefix=options["prefix"]
    )
    say(json.dumps(schema, indent=1, ensure_ascii=False, default=str) + "\n")
    return 0


VERB = Verb("openapi", "print the OpenAPI document of the REST API", add_arguments, run)
