"""The arrows of the architecture: each rule holds here, and fails where it is broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import jobs
from tests.architecture import sources
from tests.architecture.sources import ROOT

PUBLIC = frozenset(jobs.__all__)
REDIS = frozenset({"rq", "django_rq", "redis"})
CODE_IN_DATA = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"})


def plant(root: Path, file: str, text: str) -> Path:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return root


def test_arrows_point_from_config_to_domain_apps_to_jobs() -> None:
    assert sources.wrong_arrows(ROOT, PUBLIC) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("jobs/backoff.py", "import publisher"),
        ("jobs/backoff.py", "from emailgw.models import Outbox"),
        ("jobs/engine/claims.py", "def f():\n    from config import settings"),
        ("jobs/engine/claims.py", "import importlib\nimportlib.import_module('trading.models')"),
        ("publisher/handlers.py", "from emailgw import services"),
        ("publisher/handlers.py", "import config.settings"),
        ("publisher/handlers.py", "from jobs.states import FINAL_STATES"),
        ("publisher/handlers.py", "from jobs import engine"),
        ("publisher/handlers.py", "import jobs.engine.intake"),
        ("publisher/models.py", "if TYPE_CHECKING:\n    from jobs.principals import Principal"),
        ("publisher/handlers.py", "from jobs.engine.claims import claim"),
        ("publisher/handlers.py", "def f():\n    from jobs import conf"),
        ("publisher/api/views.py", "from ...emailgw import services"),
        *(("publisher/apps.py", f"from jobs import {one}") for one in sources.PROJECT_MODULES),
    ],
)
def test_a_wrong_arrow_is_found(tmp_path: Path, file: str, text: str) -> None:
    assert len(sources.wrong_arrows(plant(tmp_path, file, text), PUBLIC)) == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("publisher/handlers.py", "import jobs\nfrom jobs import enqueue, Payload"),
        ("publisher/handlers.py", "from jobs.testing import run_jobs\nfrom jobs import http"),
        ("publisher/admin.py", "from jobs.admin import panels\nimport jobs.fields"),
        ("publisher/handlers.py", "from publisher import services\nfrom . import models"),
        ("publisher/handlers.py", "if TYPE_CHECKING:\n    from jobs.models import Job"),
        ("config/urls.py", "from publisher.api import router\nfrom jobs.engine import rq"),
    ],
)
def test_a_right_arrow_passes(tmp_path: Path, file: str, text: str) -> None:
    assert sources.wrong_arrows(plant(tmp_path, file, text), PUBLIC) == []


def test_a_new_app_has_no_wrong_arrow(tmp_path: Path) -> None:
    skeleton = ROOT / "jobs" / "skeleton"
    for path in skeleton.rglob("*.py-tpl"):
        text = path.read_text().replace("{{ app_name }}", "publisher")
        text = text.replace("{{ camel_case_app_name }}", "Publisher")
        plant(tmp_path / "publisher", str(path.relative_to(skeleton).with_suffix(".py")), text)
    assert sources.wrong_arrows(tmp_path, PUBLIC) == []
    assert len(list(sources.modules(tmp_path, "publisher"))) > 10


def test_two_modules_import_rq_and_redis() -> None:
    # config.command only names an exception, to say in one line that a URL is wrong.
    allowed = frozenset({"jobs.engine.rq", "jobs.engine.clients", "config.command"})
    assert sources.foreign_imports(ROOT, REDIS, allowed) == []
    assert sources.foreign_imports(ROOT, REDIS, frozenset()) != []


@pytest.mark.parametrize("text", ["import rq", "from redis import Redis", "import django_rq as d"])
def test_a_second_importer_of_rq_is_found(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "jobs/engine/claims.py", f"def f():\n    {text}")
    assert len(sources.foreign_imports(tmp_path, REDIS, frozenset({"jobs.engine.rq"}))) == 1


def test_every_call_goes_out_through_one_transport() -> None:
    # The demo and `make run` ask their own web server whether it is up; the demo looks for a
    # free port for it.
    # `jobs run --web` looks whether its own address is taken.
    # The client of the API runs in other programs, which have no transport of ours.
    # The fork server speaks with the processes that it has forked.
    # A gate of the demo passes requests on to the demo's own web server.
    # The stand-in of the publisher's providers fetches media from this machine, as they do.
    allowed = frozenset(
        {
            *("jobs.cli.demo", "jobs.cli.ports", "jobs.client", "jobs.engine.forkserver"),
            *("config.standins.trading.gate", "config.standins.publisher.media", "config.welcome"),
        }
    )
    assert sources.ways_out(ROOT, allowed) == []
    assert len(sources.ways_out(ROOT, frozenset())) == 9


@pytest.mark.parametrize(
    "text",
    [
        "import httpx",
        "import httpcore as wire",
        "from httpx import Client",
        "def f():\n    import requests",
        "import urllib.request",
        "from urllib import request",
        "from urllib.request import urlopen",
        "import http.client",
        "import importlib\nimportlib.import_module('urllib3')",
        "import socket\nsocket.create_connection(('10.0.0.1', 80))",
        "import socket\nwith socket.socket() as line:\n    line.connect(('10.0.0.1', 80))",
        "import asyncio\nasync def f():\n    await asyncio.open_connection('10.0.0.1', 80)",
    ],
)
def test_another_way_out_is_found(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "jobs/http/network.py", text)
    plant(tmp_path, "jobs/https.py", text)
    plant(tmp_path, "publisher/clients.py", text)
    plant(tmp_path, "publisher/http.py", "from urllib.parse import quote\nfrom jobs import http")
    assert len(sources.ways_out(tmp_path, frozenset())) == 2


def test_nothing_turns_data_into_code() -> None:
    assert sources.foreign_imports(ROOT, CODE_IN_DATA, frozenset()) == []
    assert sources.unsafe_calls(ROOT) == []


def test_an_unpickler_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "jobs/engine/rq.py", "import pickle\nx = pickle.loads(b'')\ny = eval('1')")
    assert len(sources.foreign_imports(tmp_path, CODE_IN_DATA, frozenset())) == 1
    assert len(sources.unsafe_calls(tmp_path)) == 2


def test_the_vocabulary_is_pure() -> None:
    assert sources.impure_vocabulary(ROOT) == []


@pytest.mark.parametrize(
    "text",
    [
        "from django.db import models",
        "import jobs.models",
        "from jobs import engine",
        "class A:\n    from jobs.engine import sql",
        "try:\n    from jobs.models import Job\nexcept ImportError: pass",
    ],
)
def test_an_impure_word_is_found(tmp_path: Path, text: str) -> None:
    for word in sources.VOCABULARY:
        plant(tmp_path, f"jobs/{word}.py", "")
    plant(tmp_path, "jobs/outcomes.py", text)
    assert len(sources.impure_vocabulary(tmp_path)) == 1


def test_jobs_is_imported_before_django_is_set_up() -> None:
    lines = (
        "import sys, jobs",
        "jobs.Payload, jobs.Snooze, jobs.Delays, jobs.JobState, jobs.Context",
        "assert 'jobs.models' not in sys.modules and 'jobs.engine' not in sys.modules",
        "assert 'django.db.models' not in sys.modules",
    )
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-W", "error", "-c", "\n".join(lines)]
    done = subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_module_has_been_read() -> None:
    names = {name for name, _ in sources.modules(ROOT, "jobs", "config")}
    assert {"jobs", "jobs.engine.claims", "jobs.models.job", "config.settings"} <= names
    assert {"jobs." + word for word in sources.VOCABULARY} <= names
