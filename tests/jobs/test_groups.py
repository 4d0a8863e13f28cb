"""Groups of workers: what the setting declares, and what is started for it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command

from jobs import conf, groups
from jobs.cli import run, worker
from jobs.cli.groups import declared, queues_of
from jobs.errors import ConfigError
from jobs.groups import Group

WORKERS = {
    "mail": {"queues": ["email", "sms:2"], "concurrency": 16},
    "slow": {"queues": ("reports",), "processes": 4, "concurrency": 1},
    "rest": {},
}


@pytest.fixture
def workers(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "WORKERS": WORKERS}


def started(*arguments: str) -> list[tuple[str, list[str]]]:
    """The workers that ``jobs run`` would start, and their arguments."""
    parser = ArgumentParser()
    run.add_arguments(parser)
    programs = run.programs(vars(parser.parse_args(arguments)))
    return [
        (program.name, [word for word in program.command if word.startswith("--")])
        for program in programs
        if "worker" in program.command
    ]


def test_a_group_has_queues_and_sizes(workers: None) -> None:
    mail = Group("mail", (("email", 1), ("sms", 2)), {"concurrency": 16})
    assert declared()["mail"] == mail
    assert declared()["slow"].sizes == {"processes": 4, "concurrency": 1}


def test_one_group_takes_the_queues_that_no_other_names(workers: None) -> None:
    names = ["reports", "email", "other", "default"]
    assert queues_of("mail", names) == (("email", 1), ("sms", 2))
    assert queues_of("rest", names) == (("default", 1), ("other", 1))


def test_each_group_is_a_worker_of_its_own(workers: None) -> None:
    assert started() == [
        ("mail-1", ["--group=mail"]),
        ("slow-1", ["--group=slow"]),
        ("rest-1", ["--group=rest"]),
    ]


def test_some_of_them_several_times_and_in_other_sizes(workers: None) -> None:
    arguments = ["--group=slow", "--group=slow", "--workers=2", "--processes=1"]
    sizes = ["--group=slow", "--processes=1"]
    assert started(*arguments) == [("slow-1", sizes), ("slow-2", sizes)]


def test_queues_of_the_command_line_are_no_group(workers: None) -> None:
    assert started("--queues=a,b:2") == [("worker-1", ["--queues=a,b:2"])]


def test_without_groups_it_is_as_it_was() -> None:
    assert started() == [("worker-1", [])]
    assert started("--concurrency=3", "--workers=2") == [
        ("worker-1", ["--concurrency=3"]),
        ("worker-2", ["--concurrency=3"]),
    ]


@pytest.mark.parametrize("command", ["run", "worker"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group=slwo"], "JOBS['WORKERS'] has no group 'slwo'; did you mean 'slow'?"),
        (["--group=zzz"], "JOBS['WORKERS'] has no group 'zzz'"),
        (["--group=slow", "--queues=a"], "not allowed with argument"),
    ],
)
def test_a_wrong_group_is_refused_by_name(
    workers: None, command: str, arguments: list[str], message: str
) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("jobs", command, *arguments)
    assert message in str(caught.value)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans of the workers that would have begun."""
    found: list[Any] = []

    class Supervisor:
        def __init__(self, plan: Any, processes: int) -> None:
            found.extend((plan, processes))

        def run(self) -> int:
            return 0

    monkeypatch.setattr(worker, "Supervisor", Supervisor)
    monkeypatch.setattr(worker, "every_queue", lambda: ["email", "reports", "x"])
    return found


def be_worker(*arguments: str) -> int:
    parser = ArgumentParser()
    worker.add_arguments(parser)
    return worker.run(vars(parser.parse_args(arguments)))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "queues", "concurrency", "processes"),
    [
        (["--group=mail"], (("email", 1), ("sms", 2)), 16, 2),
        (["--group=slow", "--concurrency=3"], (("reports", 1),), 3, 4),
        (["--group=rest"], (("x", 1),), 8, 2),
        (["--queues=email:3"], (("email", 3),), 8, 2),
        ([], (("email", 1), ("reports", 1), ("x", 1)), 8, 2),
    ],
)
def test_a_worker_is_what_its_group_says(
    workers: None,
    planned: list[Any],
    arguments: list[str],
    queues: groups.Queues,
    concurrency: int,
    processes: int,
) -> None:
    assert be_worker(*arguments) == 0
    plan, number = planned
    assert (plan.queues, plan.concurrency, number) == (queues, concurrency, processes)
    group = arguments[0].removeprefix("--group=") if "--group" in "".join(arguments) else ""
    assert plan.worker.startswith(f"{group}@") if group else "@" not in plan.worker


@pytest.mark.django_db
def test_a_group_that_is_left_no_queue_says_so(
    workers: None, planned: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "every_queue", lambda: ["email", "reports"])
    with pytest.raises(ConfigError, match="the other groups have every queue, and 'rest' has none"):
        be_worker("--group=rest")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"queue": ["a"]}, "JOBS['WORKERS']['slow'] has no key 'queue'; did you mean 'queues'?"),
        ({"threads": 1}, "JOBS['WORKERS']['slow'] has no key 'threads'"),
        ({"queues": ["a", "a"]}, "JOBS['WORKERS']['slow']['queues']: queue 'a' is given twice"),
    ],
)
def test_a_wrong_key_is_refused_with_a_guess(rules: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        conf.parse({"WORKERS": {"slow": rules}})
    assert str(caught.value) == message


def test_queues_that_nobody_serves_or_names_are_warned_of(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "WORKERS": {"one": {"queues": ["defualt", "apart:2"]}}}
    found = warnings()
    assert any("no group listens to queue" in message for message in found["jobs.W053"])
    guess = "JOBS['WORKERS']: no handler names queue 'defualt'; did you mean 'default'?"
    assert guess in found["jobs.W054"]
    settings.JOBS = {**settings.JOBS, "WORKERS": {"one": {}}}
    assert not any(warnings().values())


def warnings() -> dict[str, list[str]]:
    """The warnings about queues of groups, by their ids."""
    found: dict[str, list[str]] = {"jobs.W053": [], "jobs.W054": []}
    for message in run_checks(tags=["jobs"], databases=[]):
        if message.id in found:
            found[message.id].append(message.msg)
    return found
