"""Enqueues and stops operations in a process of a fleet; one JSON request and answer per line."""

from __future__ import annotations

import json
import sys
from typing import Any

import django


def answer(request: dict[str, Any]) -> Any:
    """Carry out ``ask``, or a verb on an operation or an agent; create the user ``staff``."""
    from operations import verbs
    from operations.errors import Refused
    from operations.models import Agent
    from tests.operations import factories

    try:
        if "staff" in request:
            from django.contrib.auth.models import User

            User.objects.filter(username=request["staff"]).delete()
            return User.objects.create_superuser(request["staff"], password=request["password"]).pk
        if "ask" in request:
            made = []
            for agent, type, data in request["ask"]:
                if not Agent.objects.filter(pk=agent).exists():
                    factories.agent(agent, client=request["client"])
                made.append(str(factories.ask(type, data, agent).pk))
            return made
        verb = getattr(verbs, request["verb"])
        options = {"by": "tests", "reason": "a test", **request.get("options", {})}
        return str(verb(request["target"], *request.get("given", []), **options))
    except Refused as refused:
        return {"refused": refused.message}


def serve() -> None:
    """Answer requests, each under the settings that it brings along."""
    from django.conf import settings
    from django.db import close_old_connections
    from django.test import override_settings

    usual = settings.JOBS
    for line in sys.stdin:
        close_old_connections()  # a server may have been started again between two tests
        request = json.loads(line)
        with override_settings(JOBS={**usual, **request["jobs"]}, OPERATIONS=request["operations"]):
            sys.stdout.write(json.dumps(answer(request)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    django.setup()
    serve()
