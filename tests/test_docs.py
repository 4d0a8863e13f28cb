"""What the documents say is so."""

# Running what the documents show is the point.
# ruff: noqa: S102

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, get_args
from urllib.request import urlopen

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.db import connection

import emailgw.checks
import fileproc.checks
import jobs
import operations.checks
import publisher.checks
import trading.checks
from jobs import checks, conf, outcomes, registry, testing, versions
from jobs.context import Context
from jobs.engine.board import StopReason
from jobs.engine.drafts import OnParentFailure, Options
from jobs.fields import columns, indexes
from jobs.limits import UniqueFor
from jobs.management.commands.jobs import commands
from jobs.models import Job
from jobs.operate import verbs
from jobs.operate.doctor import EVERY
from jobs.states import JobState
from tests.architecture import sources
from tests.docs.pages import NAMES, ROOT, blocks, python, text
from tests.jobs.ports import free_port
from tests.operate import document
from tests.wait import wait_until


def one_line(passage: str) -> str:
    return " ".join(passage.split())


def section(name: str, title: str) -> str:
    """What stands between this heading and the next of its level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}$", text(name), re.MULTILINE)
    assert found, f"{name} has no section {title!r}"
    rest = text(name)[found.end() :]
    return re.split(rf"^#{{1,{len(found[1])}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(passage: str) -> list[str]:
    """The names in the first column of the tables of a passage."""
    cells = re.findall(r"^\| (`[^|]+) \|", passage, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


# ---- code


@pytest.mark.django_db(transaction=True)
def test_the_readme_reaches_the_api(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does the page of the client, with the same variables."""
    create = next(block for block in blocks("README.md", "sh") if "api-keys" in block)
    told = StringIO()
    with redirect_stdout(told):
        call_command("jobs", *shlex.split(create.splitlines()[0])[2:])
    found = re.search(r"jd_live_\w+", told.getvalue())
    assert found, told.getvalue()
    monkeypatch.setenv("JOBS_API", f"{live_server.url}/api/v1")
    monkeypatch.setenv("JOBS_KEY", found[0])
    curl = next(block for block in blocks("README.md", "sh") if "curl" in block)
    ran = subprocess.run(["/bin/sh", "-ec", curl], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert '"deduplicated": false' in ran.stdout and '"example.greet"' in ran.stdout, ran.stdout
    for name in ("README.md", "docs/client.md"):
        [block] = [block for block in python(name) if block.calls_a_server]
        with worker():
            exec(compile(block.in_place, name, "exec", dont_inherit=True), {})
    tenants = [job.tenant for job in Job.objects.filter(kind="example.greet").order_by("id")]
    assert tenants == ["", "demo", "acme"]


@contextmanager
def worker() -> Iterator[None]:
    """Run what is due, in a thread."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.05):
            testing.run_jobs()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_every_scope_of_uniqueness_is_documented() -> None:
    told = text("docs/flow-control.md")
    for scope in (word for part in get_args(UniqueFor) for word in get_args(part)):
        assert f'| `"{scope}"' in told, scope
    for policy in get_args(OnParentFailure):
        assert f'| `"{policy}"' in told, policy


def test_every_reason_to_stop_is_documented() -> None:
    told = first_cells(section("docs/flow-control.md", "Stop requests"))
    assert told == [reason.word for reason in StopReason if reason is not StopReason.NONE]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_exists(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", text("Makefile"), re.MULTILINE))
    for target in re.findall(r"\bmake ([a-z-]+)(?=[`\s])", text(name)):
        if f"`make {target}" in text(name) or f"\nmake {target}" in text(name):
            assert target in targets, f"make {target}"
    for command, verb in re.findall(r"manage\.py ([a-z_]+)(?: ([a-z]+(?:-[a-z]+)*))?", text(name)):
        assert command in get_commands(), command
        if command == "jobs" and verb:
            assert verb in commands(), f"jobs {verb}"


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_a_command_exists(name: str) -> None:
    parser = load_command_class("jobs", "jobs").create_parser("manage.py", "jobs")
    for line in re.findall(r"manage\.py jobs ([a-z]+(?: --?[\w-]+(?:[= ][\w,:.]+)?)+)", text(name)):
        parser.parse_args(shlex.split(line))


# ---- links


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", text(name)):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        path = (ROOT / name).parent / file if file else ROOT / name
        assert path.is_file(), link
        assert not anchor or anchor in anchors(path), link


def test_every_document_can_be_reached_from_the_readme() -> None:
    linked = re.findall(r"\]\((docs/[^)#]+)\)", text("README.md"))
    assert set(linked) == {name for name in NAMES if name.startswith("docs/")}


def test_the_readme_stays_short_and_its_map_is_right() -> None:
    readme = text("README.md")
    assert len(readme.splitlines()) <= 200
    for line in section("README.md", "What is where").splitlines():
        if found := re.match(r"( *)(\S+)  ", line):
            folder = "jobs" if found[1] else ""
            assert (ROOT / folder / found[2]).exists(), line


# ---- what there is


def written(setting: Field[Any]) -> str:
    default = setting.default
    if setting.default_factory is not MISSING:
        default = setting.default_factory()
    return f"timedelta(days={default.days})" if isinstance(default, timedelta) else repr(default)


def test_every_setting_is_documented() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| `(.+?)` \|", text("docs/operating.md"), re.MULTILINE)
    assert [key for key, _ in rows] == [field.name for field in fields(conf.Settings)]
    for (_, default), field in zip(rows, fields(conf.Settings), strict=True):
        assert default == written(field)


def test_every_verb_is_documented() -> None:
    told = re.findall(r"^\| `manage\.py jobs ([\w-]+)", text("docs/operating.md"), re.MULTILINE)
    assert sorted(told) == sorted(set(commands()) - set(verbs.apps()))


def test_every_declaration_of_a_verb_is_in_the_table() -> None:
    page = text("docs/verbs.md")
    assert document.written(page) == page, "run `python -m tests.operate.document`"


def ids_of_checks(*modules: ModuleType) -> list[str]:
    sources = "".join(map(inspect.getsource, modules))
    return [*dict.fromkeys(re.findall(r'id="(\w+\.(?:fields\.)?[EW]\d+)"', sources))]


def test_every_check_is_documented() -> None:
    ours = (getattr(checks, name) for name in checks.__all__)
    known = sorted(ids_of_checks(*ours), key=lambda name: (name[6:], name))
    known += ids_of_checks(columns, indexes)
    for app in (emailgw, fileproc, publisher, trading, operations):
        known += ids_of_checks(app.checks)
    assert first_cells(section("docs/operating.md", "Checks")) == known


def test_every_reason_of_a_failure_is_documented() -> None:
    source = inspect.getsource(outcomes)
    known = set(re.findall(r'reason="(\w+)"|reason = "(\w+)"', source))
    flat = {word for pair in known for word in pair if word}
    flat |= {"exhausted", "timeout", *outcomes._FINAL_ENDINGS}
    assert set(first_cells(section("docs/operating.md", "Why jobs failed"))) == flat


def test_every_option_of_a_handler_is_documented() -> None:
    known = list(inspect.signature(registry.handler).parameters)[1:]
    assert sorted(first_cells(section("docs/writing-jobs.md", "Handlers"))[: len(known)]) == sorted(
        known
    )


def test_every_option_of_enqueue_is_documented() -> None:
    told = first_cells(section("docs/writing-jobs.md", "Enqueueing"))
    assert sorted(told) == sorted(Options.__annotations__)


def test_the_whole_context_is_documented() -> None:
    told = {
        re.split(r"\W", name.removeprefix("ctx."))[0]
        for name in first_cells(section("docs/writing-jobs.md", "The context"))
    }
    # Whoever runs the handlers closes their context; handlers do not.
    known = {name for name in dir(Context) if not name.startswith("_")} - {"close"}
    assert told == known


def test_the_public_modules_are_documented() -> None:
    for_apps, for_projects = section("docs/embedding.md", "Apps that stand on it").split(
        "### Settings and deployment"
    )
    assert first_cells(for_apps) == [f"jobs.{name}" for name in sources.PUBLIC_MODULES]
    told = [re.split(r"`", row)[1] for row in re.findall(r"^\| `jobs.*", for_projects, re.M)]
    assert told == [f"jobs.{name}" for name in sources.PROJECT_MODULES]


def test_every_outcome_and_policy_is_documented() -> None:
    told = text("docs/writing-jobs.md")
    steers = [c.__name__ for c in outcomes.Steer.__subclasses__()]
    policies = ["Delays", "Exponential", "Linear", "Fixed", "Immediate"]
    for name in (*steers, "Stopped", *policies):
        homes = [h for h in (jobs, jobs.effects, jobs.flow, jobs.backoff) if hasattr(h, name)]
        assert any(f"`{home.__name__}.{name}" in told for home in homes), name


def test_the_whole_testing_kit_is_documented() -> None:
    told = section("docs/writing-jobs.md", "Testing")
    for name in testing.__all__:
        if name[0].islower():
            assert f"`{name}" in told, name


def test_every_state_is_in_the_glossary() -> None:
    for state in JobState:
        assert f"`{state}`" in text("docs/glossary.md")


def test_the_glossary_is_in_order() -> None:
    terms = re.findall(r"^\*\*(.+?)\*\*", text("docs/glossary.md"), re.MULTILINE)
    assert terms == sorted(terms)


def test_every_invariant_is_documented_in_its_own_words() -> None:
    sections = re.split(r"^### ", text("docs/invariants.md"), flags=re.MULTILINE)[1:]
    told = {part.split("\n", 1)[0]: one_line(part) for part in sections}
    assert list(told) == [invariant.name for invariant in EVERY]
    for invariant in EVERY:
        assert invariant.statement in told[invariant.name]
        assert f"enforced by: {invariant.kept_by}" in told[invariant.name]
        assert invariant.remedy in told[invariant.name]
        assert re.search(r"tested by: `tests/\S+::test_\w+`", told[invariant.name])


@pytest.mark.parametrize("name", NAMES)
def test_every_test_that_a_document_names_exists(name: str) -> None:
    for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text(name)):
        tree = ast.parse(text(path))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert test in functions, f"{path}::{test}"


def test_the_oldest_versions_are_those_that_the_code_knows() -> None:
    rows = re.findall(
        r"^\| ([\w-]+) \| ([\d.]+) \|$", section("docs/embedding.md", "Versions"), re.M
    )
    known = {
        "Python": versions.PYTHON,
        "Django": versions.DJANGO,
        "PostgreSQL": versions.POSTGRESQL,
        "Redis": versions.REDIS,
        "redis-py": versions.REDIS_PY,
    }
    assert {name: versions.parsed(version) for name, version in rows} == known


def test_the_oldest_packages_are_those_that_pip_allows() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert versions.parsed(project["requires-python"].removeprefix(">=")) == versions.PYTHON
    listed = " ".join(project["dependencies"])
    for name, oldest in (("django", versions.DJANGO), ("redis", versions.REDIS_PY)):
        [bound] = re.findall(rf"(?<![\w-]){name}>=([\d.]+)", listed)
        assert versions.parsed(bound) == oldest


@pytest.mark.slow
def test_a_server_starts_with_the_deployment_lines(tmp_path: Path) -> None:
    page = section("docs/realtime.md", "Deployment")
    [command] = re.findall(r"^uvicorn .*", page, re.MULTILINE)
    [module] = [block for block in blocks("docs/realtime.md", "python") if "# asgi.py" in block]
    assert 'setdefault("DJANGO_SETTINGS_MODULE", "yourproject.settings")' in module
    (tmp_path / "asgi.py").write_text(module.replace("yourproject.settings", "tests.settings"))
    port = free_port()
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    server = subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command), f"--port={port}"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )

    def is_alive() -> bool:
        assert server.poll() is None, "the server has ended"
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/api/v1/health/live") as answer:
            return bool(answer.status == 200)
        return False

    try:
        wait_until(is_alive, 60)
    finally:
        server.terminate()
        server.wait(30)
