"""The commands of people: ``manage.py jobs GROUP ACTION``, each a function of ``operate``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from importlib import import_module
from typing import Any
from uuid import UUID

from jobs.cli import acting
from jobs.cli.answers import say_json, say_one, say_rows
from jobs.cli.people import person
from jobs.cli.verb import Options, Verb, positive_int
from jobs.operate import (
    apikeys,
    audit,
    batches,
    breakers,
    causes,
    charts,
    doubts,
    search,
    services,
    sight,
    views,
    webhooks,
    workers,
)
from jobs.operate.groups import create_groups


@dataclass(frozen=True, slots=True)
class Listing:
    """A command that only shows."""

    help: str
    columns: tuple[str, ...]
    rows: Callable[[Options], Iterable[Any]]
    empty: str = "There is nothing."


@dataclass(frozen=True, slots=True)
class Group:
    """Commands about one sort of things."""

    help: str
    acts: Mapping[str, str]
    """Functions below ``jobs.operate``, by the name of their command."""
    listing: Listing | None = None
    show: Callable[[Options], Any] | None = None
    id_type: Callable[[str], Any] = str
    of_one: Mapping[str, Listing] = field(default_factory=dict)
    """What belongs to one of them, by the name of the command that shows it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery of a webhook as it is listed: what it says is nobody's business here."""

    id: UUID
    event_id: UUID
    topic: str
    key: str
    sequence: int
    state: str
    tries: int
    log: list[Any]
    created_at: datetime
    closed_at: datetime | None


def _batches(options: Options) -> Iterable[Any]:
    return sight.batches(person()).order_by("-created_at", "-id")[: options["limit"]]


def _letters(options: Options) -> Iterable[Any]:
    rows = sight.letters(person()).filter(state="open")
    return rows.order_by("-opened_at", "-id")[: options["limit"]]


def _doubts(options: Options) -> Iterable[Any]:
    rows = sight.within(doubts.open_doubts(), person(), tenant="job__tenant", queue="job__queue")
    return rows[: options["limit"]]


def _deliveries(options: Options) -> Iterable[Any]:
    """Without what they say."""
    found = webhooks.deliveries(options["id"], by=person(), limit=min(options["limit"], 1000))
    names = [f.name for f in fields(Delivery)]
    return [Delivery(**{name: getattr(row, name) for name in names}) for row in found]


GROUPS: Mapping[str, Group] = {
    "batches": Group(
        "see batches, and decide about their jobs",
        {"cancel-rest": "batches.cancel_rest", "retry-failed": "batches.retry_failed",
         "note": "batches.note"},
        Listing("the newest batches",
                ("id", "name", "state", "total", "succeeded", "failed", "cancelled", "created_at"),
                _batches),
        lambda options: batches.progress(options["id"]), acting.uuid,
    ),
    "dead-letters": Group(
        "see dead letters, and decide about them",
        {"retry": "deadletters.retry_letter", "replay": "deadletters.replay_letter",
         "discard": "deadletters.discard_letter"},
        Listing("open dead letters, the newest first",
                ("id", "kind", "queue", "reason", "opened_at", "fingerprint", "job_id", "summary"),
                _letters, "No dead letter waits for a decision."),
    ),
    "causes": Group(
        "see why jobs die, and decide about all that died of the same",
        {"ignore": "causes.ignore", "resolve": "causes.resolve", "reopen": "causes.reopen",
         "note": "causes.note", "retry-all": "causes.retry_all",
         "replay-all": "causes.replay_all", "discard-all": "causes.discard_all"},
        Listing("open causes, the latest first",
                ("fingerprint", "open", "count", "last_at", "kinds", "sample"),
                lambda options: causes.every(by=person(), limit=options["limit"]),
                "Nothing dies of anything."),
        lambda options: causes.find(options["id"], by=person()),
    ),
    "workers": Group(
        "see workers, let them go home",
        {"drain": "workers.drain", "stop": "workers.stop"},
        Listing("every worker", ("name", "state", "host", "pid", "version", "queues", "seen_at"),
                lambda options: workers.workers(by=person()), "No worker lives."),
        lambda options: workers.worker(options["id"], by=person()),
    ),
    "services": Group(
        "see who hands jobs out, serves schedules and relays events",
        {},
        Listing("each of them", ("name", "state", "holders", "lag", "last_at"),
                lambda options: services.services(by=person())),
    ),
    "limits": Group(
        "see and change limits of queues, kinds and keys",
        {"set": "queues.set_limit", "end-override": "queues.end_override",
         "remove": "queues.remove_limit"},
        Listing("every limit", ("scope", "at_once", "per_second", "burst"),
                lambda options: sight.limits(person())[: options["limit"]], "Nothing is limited."),
    ),
    "breakers": Group(
        "see circuit breakers, open and close them",
        {"open": "breakers.force_open", "close": "breakers.reset"},
        Listing("every breaker", ("name", "state"), lambda options: breakers.known()),
    ),
    "doubts": Group(
        "see effects in doubt, and say what happened",
        {"resolve": "doubts.resolve"},
        Listing("effects of which nobody knows whether they happened", ("id", "job_id", "key"),
                _doubts, "Nothing is in doubt."),
    ),
    "blackouts": Group(
        "see and change blackout windows",
        {"create": "blackouts.create", "update": "blackouts.update",
         "delete": "blackouts.delete"},
        Listing("every window",
                ("id", "scope", "start", "end", "time_zone", "days", "enabled", "reason"),
                lambda options: sight.blackouts(person())[: options["limit"]]),
    ),
    "audit": Group(
        "see who did what, and why",
        {},
        Listing("the newest acts",
                ("at", "actor", "via", "action", "target_id", "outcome", "reason"),
                lambda options: audit.entries(by=person(), limit=options["limit"]).rows),
    ),
    "api-keys": Group(
        "keys of programs that use the API",
        {"create": "apikeys.create", "rotate": "apikeys.rotate", "revoke": "apikeys.revoke"},
        Listing("every key",
                ("id", "name", "permissions", "tenants", "queues", "expires_at", "revoked_at"),
                lambda options: apikeys.visible(person())[: options["limit"]],
                "There is no key."),
    ),
    "views": Group(
        "keep queries of the list of jobs under names",
        {"save": "views.save", "edit": "views.edit", "remove": "views.remove"},
        Listing("your views, and those that are shared",
                ("id", "name", "query", "tab", "is_shared", "owner"),
                lambda options: views.every(by=person())[: options["limit"]],
                "No view is kept."),
        lambda options: views.find(options["id"], by=person()), int,
    ),
    "webhooks": Group(
        "see webhooks and what was sent to them; make, change, pause and try them",
        {"create": "webhooks.create", "edit": "webhooks.edit", "pause": "webhooks.pause",
         "resume": "webhooks.resume", "rotate-secret": "webhooks.rotate_secret",
         "delete": "webhooks.delete", "ping": "webhooks.ping",
         "redeliver": "webhooks.redeliver"},
        Listing("every webhook",
                ("id", "name", "tenant", "url", "topics", "state", "failures"),
                lambda options: webhooks.every(by=person())[: options["limit"]],
                "There is no webhook."),
        lambda options: webhooks.find(options["id"], by=person()), acting.uuid,
        {"deliveries": Listing(
            "what was sent to one of them, the newest first",
            ("id", "topic", "state", "tries", "key", "sequence", "created_at", "closed_at"),
            _deliveries, "Nothing was sent to it.")},
    ),
}  # fmt: skip
SCHEDULES = {"create": "schedules.create", "edit": "schedules.edit",
             "remove": "schedules.remove", "backfill": "schedules.backfill"}  # fmt: skip
JOB_ACTS = {
    "retry": ("retry.retry", "run an ended job again"),
    "run-now": ("edit.run_now", "run a waiting job without its delay"),
    "replay": ("replay.replay", "make a new job of an ended one"),
    "cancel": ("cancel.cancel", "end a waiting job, ask a running one to stop"),
    "edit": ("edit.edit", "change a waiting job"),
    "reveal-payload": ("shown.reveal_payload", "show a payload in clear, which is recorded"),
}


def load(function: str) -> Callable[..., Any]:
    """The function of ``operate`` with this name."""
    module, _, name = function.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(f"jobs.operate.{module}"), name)
    return found


def _first_line(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").strip().split("\n")[0].replace("%", "%%")


def _group(name: str, group: Group) -> Verb:
    def add_arguments(parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        if group.listing is not None:
            listing = actions.add_parser("list", help=group.listing.help)
            listing.add_argument("--json", action="store_true", help="answer in JSON")
            listing.add_argument("--limit", type=positive_int, default=100, metavar="N")
        if group.show is not None:
            show = actions.add_parser("show", help="one of them")
            show.add_argument("id", type=group.id_type, metavar="ID")
            show.add_argument("--json", action="store_true", help="answer in JSON")
        for action, told in group.of_one.items():
            shown = actions.add_parser(action, help=told.help)
            shown.add_argument("id", type=group.id_type, metavar="ID")
            shown.add_argument("--json", action="store_true", help="answer in JSON")
            shown.add_argument("--limit", type=positive_int, default=100, metavar="N")
        for action, function in group.acts.items():
            loaded = load(function)
            words = _first_line(loaded)
            acting.add_parameters(actions.add_parser(action, help=words, description=words), loaded)

    def run(options: Options) -> int:
        action = options["action"]
        listing = group.listing if action == "list" else group.of_one.get(action)
        if listing is not None:
            say_rows(listing.rows(options), listing.columns, options["json"], listing.empty)
            return 0
        if action == "show" and group.show is not None:
            say_one(group.show(options), options["json"])
            return 0
        return acting.act(load(group.acts[action]), options)

    return Verb(name, group.help, add_arguments, run)


def _job_act(name: str, function: str, words: str) -> Verb:
    return Verb(
        name,
        words,
        lambda parser: acting.add_parameters(parser, load(function)),
        lambda options: acting.act(load(function), options),
    )


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("query", nargs="*", metavar="QUERY", help="like state:failed kind:mail.*")
    parser.add_argument("--limit", type=positive_int, default=50, metavar="N", help="jobs (50)")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def _list(options: Options) -> int:
    page = search.jobs(" ".join(options["query"]), by=person(), limit=options["limit"])
    columns = ("id", "kind", "queue", "state", "attempt", "created_at", "error")
    say_rows(page.jobs, columns, options["json"], "No job is like that.")
    return 0


def _add_show(parser: ArgumentParser) -> None:
    parser.add_argument("id", type=acting.uuid, metavar="ID", help="the job's id")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def _show(options: Options) -> int:
    found = search.one(options["id"], by=person())
    say_one(found if found is not None else f"there is no job {options['id']}", options["json"])
    return 0 if found is not None else 1


def _groups(options: Options) -> int:
    added = create_groups()
    if options["json"]:
        say_json(added)
    else:
        say_one(added, False)
    return 0


def _add_deploy(parser: ArgumentParser) -> None:
    parser.add_argument("version", metavar="VERSION", help="what runs from now on")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def _deploy(options: Options) -> int:
    say_one(charts.mark_deploy(options["version"], by=person()), options["json"])
    return 0


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON")


VERBS = (
    Verb("list", "jobs that a query finds, newest first", _add_list, _list),
    Verb("show", "one job as it is", _add_show, _show),
    *(_job_act(name, function, words) for name, (function, words) in JOB_ACTS.items()),
    *(_group(name, group) for name, group in GROUPS.items()),
    Verb("mark-deploy", "mark a deployment in the charts", _add_deploy, _deploy),
    Verb("groups", "make the groups viewer, operator and administrator", _add_json, _groups),
)
ELSEWHERE = {
    "charts.mark_deploy", "outbox.park", "outbox.publish", "outbox.discard",
    "pauses.pause", "pauses.resume",
    "schedules.pause", "schedules.resume", "schedules.run_now",
    "bulk.start", "bulk.abort", "bulk.proceed",
}  # fmt: skip
"""Functions of ``operate`` with commands of their own."""


def covered() -> set[str]:
    """Every function of ``operate`` that has a command."""
    found = set(ELSEWHERE) | set(SCHEDULES.values())
    found |= {function for group in GROUPS.values() for function in group.acts.values()}
    return found | {function for function, _ in JOB_ACTS.values()}
