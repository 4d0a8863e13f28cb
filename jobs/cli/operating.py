"""The commands of people: ``manage.py jobs GROUP ACTION``, each a function of ``operate``."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.cli import acting
from jobs.cli.answers import say_json, say_one, say_rows
from jobs.cli.people import person
from jobs.cli.verb import Options, positive_int
from jobs.cli.verb import Verb as Command
from jobs.docstrings import summary
from jobs.operate import (
    apikeys,
    audit,
    batches,
    breakers,
    causes,
    doubts,
    meters,
    search,
    services,
    sight,
    verbs,
    views,
    webhooks,
    workers,
)
from jobs.operate.groups import create_groups
from jobs.operate.verbs import Verb


@dataclass(frozen=True, slots=True)
class Listing:
    """A command that only shows."""

    help: str
    columns: tuple[str, ...]
    rows: Callable[[Options], Iterable[Any]]
    empty: str = "There is nothing."


@dataclass(frozen=True, slots=True)
class Group:
    """Commands about one sort of things: to see them, and to do their verbs."""

    help: str
    noun: str = ""
    """With which the names of their verbs begin."""
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
        "batch",
        Listing("the newest batches",
                ("id", "name", "state", "total", "succeeded", "failed", "cancelled", "created_at"),
                _batches),
        lambda options: batches.progress(options["id"]), acting.uuid,
    ),
    "dead-letters": Group(
        "see dead letters, and decide about them",
        "deadletter",
        Listing("open dead letters, the newest first",
                ("id", "kind", "queue", "reason", "opened_at", "fingerprint", "job_id", "summary"),
                _letters, "No dead letter waits for a decision."),
    ),
    "causes": Group(
        "see why jobs fail, and decide about all with the same cause",
        "cause",
        Listing("open causes, the latest first",
                ("fingerprint", "open", "count", "last_at", "kinds", "sample"),
                lambda options: causes.every(by=person(), limit=options["limit"]),
                "There is no open cause."),
        lambda options: causes.find(options["id"], by=person()),
    ),
    "workers": Group(
        "see workers, drain and stop them",
        "worker",
        Listing("every worker", ("name", "state", "host", "pid", "version", "queues", "seen_at"),
                lambda options: workers.workers(by=person()), "No worker is running."),
        lambda options: workers.worker(options["id"], by=person()),
    ),
    "services": Group(
        "see which processes dispatch jobs, serve schedules and relay events",
        "",
        Listing("each of them", ("name", "state", "holders", "lag", "last_at"),
                lambda options: services.services(by=person())),
    ),
    "limits": Group(
        "see and change limits of queues, kinds and keys",
        "limit",
        Listing("every limit", ("scope", "at_once", "per_second", "burst", "closed_until"),
                lambda options: sight.limits(person())[: options["limit"]], "Nothing is limited."),
    ),
    "breakers": Group(
        "see circuit breakers, open and close them",
        "breaker",
        Listing("every breaker",
                ("name", "state", "failures", "opened_at", "retry_at", "last_error"),
                lambda options: breakers.known()),
    ),
    "meters": Group(
        "see meters of calls, and reopen them",
        "meter",
        Listing("every meter", ("name", "amount", "span", "burst", "taken_until", "closed_until"),
                lambda options: meters.known()[: options["limit"]], "Nothing is metered."),
    ),
    "doubts": Group(
        "see effects in doubt, and resolve them",
        "effect",
        Listing("effects whose outcome is unknown", ("id", "job_id", "key"),
                _doubts, "Nothing is in doubt."),
    ),
    "blackouts": Group(
        "see and change blackout windows",
        "blackout",
        Listing("every window",
                ("id", "scope", "start", "end", "time_zone", "days", "enabled", "reason"),
                lambda options: sight.blackouts(person())[: options["limit"]]),
    ),
    "audit": Group(
        "see who did what, and why",
        "",
        Listing("the newest acts",
                ("at", "actor", "via", "action", "target_id", "outcome", "reason"),
                lambda options: audit.entries(by=person(), limit=options["limit"]).rows),
    ),
    "api-keys": Group(
        "keys of programs that use the API",
        "apikey",
        Listing("every key",
                ("id", "name", "permissions", "tenants", "queues", "expires_at", "revoked_at"),
                lambda options: apikeys.visible(person())[: options["limit"]],
                "There is no key."),
    ),
    "views": Group(
        "keep queries of the list of jobs under names",
        "view",
        Listing("your views, and those that are shared",
                ("id", "name", "query", "tab", "is_shared", "owner"),
                lambda options: views.every(by=person())[: options["limit"]],
                "No view is kept."),
        lambda options: views.find(options["id"], by=person()), int,
    ),
    "webhooks": Group(
        "see webhooks and what was sent to them; make, change, pause and try them",
        "webhook",
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


def add_action(actions: Any, verb: Verb, name: str = "", without: Collection[str] = ()) -> Any:
    """Add the sub-command of a verb; return its parser."""
    words = help_of(verb.function)
    parser = actions.add_parser(name or verb.slug, help=words, description=words)
    acting.add_verb(parser, verb, without)
    return parser


def action_of(noun: str, action: str) -> Verb:
    """Return the verb that a sub-command does."""
    [found] = [verb for verb in verbs.of_noun(noun) if verb.slug == action]
    return found


def help_of(function: Callable[..., Any]) -> str:
    """Return what the command of the function says that it does."""
    return summary(function).replace("%", "%%")


def _group(name: str, group: Group) -> Command:
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
        for verb in verbs.of_noun(group.noun):
            add_action(actions, verb)

    def run(options: Options) -> int:
        action = options["action"]
        listing = group.listing if action == "list" else group.of_one.get(action)
        if listing is not None:
            say_rows(listing.rows(options), listing.columns, options["json"], listing.empty)
            return 0
        if action == "show" and group.show is not None:
            say_one(group.show(options), options["json"])
            return 0
        return acting.act(action_of(group.noun, action), options)

    return Command(name, group.help, add_arguments, run)


def _alone(name: str, verb: Verb) -> Command:
    """Return the command that does nothing but this verb."""
    return Command(
        name,
        help_of(verb.function),
        lambda parser: acting.add_verb(parser, verb),
        lambda options: acting.act(verb, options),
    )


def _of_app(app: str) -> Command:
    """Return the command with the verbs that an app declares."""
    actions = {verb.name.replace(".", "-").replace("_", "-"): verb for verb in verbs.of_app(app)}

    def add_arguments(parser: ArgumentParser) -> None:
        parsers = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        for name, verb in actions.items():
            add_action(parsers, verb, name)

    def run(options: Options) -> int:
        return acting.act(actions[options["action"]], options)

    return Command(app, f"act on what belongs to {app}", add_arguments, run)


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("query", nargs="*", metavar="QUERY", help="like state:failed kind:mail.*")
    parser.add_argument("--limit", type=positive_int, default=50, metavar="N", help="jobs (50)")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def _list(options: Options) -> int:
    page = search.jobs(" ".join(options["query"]), by=person(), limit=options["limit"])
    columns = ("id", "kind", "queue", "state", "attempt", "created_at", "error")
    nothing = "No job found in the part that was searched." if page.capped else "No job matches."
    say_rows(page.jobs, columns, options["json"], nothing)
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


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def commands() -> tuple[Command, ...]:
    """Return the commands of people, as far as their verbs are declared."""
    return (
        Command("list", "jobs that a query finds, newest first", _add_list, _list),
        Command("show", "one job as it is", _add_show, _show),
        *(_alone(verb.slug, verb) for verb in verbs.of_noun("job")),
        *(_group(name, group) for name, group in GROUPS.items()),
        *(_alone(f"{verb.slug}-deploy", verb) for verb in verbs.of_noun("deploy")),
        Command(
            "groups",
            "create the groups viewer, operator and administrator, and those of apps",
            _add_json,
            _groups,
        ),
    )


def of_apps() -> tuple[Command, ...]:
    """Return a command for each app that declares verbs."""
    return tuple(_of_app(app) for app in verbs.apps())
