"""The settings as a command sees them, with the environment it is given."""

import json
import re
import stat
from pathlib import Path

import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler
from pytest_django import DjangoDbBlocker

from config import command, environment
from config.addresses import parse_database_url
from config.embedded import client
from tests.config.users import User, processes_of, run, status
from tests.docs.pages import ROOT, text
from tests.test_docs import first_cells, section

SHOW = (
    "import json; from config import settings as s; print(json.dumps({"
    "'database': s.DATABASES['default'], 'rq': s.RQ_QUEUES, 'debug': s.DEBUG,"
    "'key': s.SECRET_KEY, 'hosts': s.ALLOWED_HOSTS,"
    "'secure': s.__dict__.get('SESSION_COOKIE_SECURE'),"
    "'hsts': s.__dict__.get('SECURE_HSTS_SECONDS')}))"
)
GIVEN = {
    "DATABASE_URL": "postgresql://ann:pw@127.0.0.1:1/jobs?sslmode=disable",
    "REDIS_URL": "redis://127.0.0.1:1/2",
}
KEYS = {
    "JOBS_KEYS": "a=dDUOFYZzHIOnkmDTnGmrJ4NGvFxQWUgQZsPjCVmXv6k=",
    "JOBS_INDEX_KEY": "c3K7fEXgLCdmWMqcgqJRHzv9oHmYYTOTSPEMTFPRt9M=",
}


def one_line(error: str) -> str:
    assert error.count("\n") == 1, error
    return error.strip()


def test_given_servers_leave_the_embedded_ones_alone(data: Path) -> None:
    found = run(data, "-c", SHOW, **GIVEN, SECRET_KEY="k", ALLOWED_HOSTS="a.example, b.example")
    shown = json.loads(found.stdout)
    database = shown["database"]
    assert (database["HOST"], database["PORT"], database["USER"]) == ("127.0.0.1", "1", "ann")
    assert database["OPTIONS"] == {"sslmode": "disable", "application_name": "jobdesk"}
    assert shown["rq"] == {"default": {"URL": GIVEN["REDIS_URL"]}}
    assert shown["hosts"] == ["a.example", "b.example"]
    assert (shown["debug"], shown["secure"], shown["hsts"]) == (False, True, 31_536_000)
    assert not data.exists()
    assert processes_of(data) == []


def test_without_variables_the_servers_are_embedded(data: Path) -> None:
    found = run(data, "-c", SHOW)
    shown = json.loads(found.stdout)
    assert shown["database"]["HOST"].startswith("/tmp/jobdesk-")
    assert shown["rq"]["default"]["URL"] == client.addresses(data)["valkey"]
    assert (shown["debug"], shown["secure"]) == (True, None)
    assert set(status(data)["servers"]) == {"postgres", "valkey"}


@pytest.mark.parametrize(
    ("variable", "kind"), [("DATABASE_URL", "valkey"), ("REDIS_URL", "postgres")]
)
def test_each_variable_counts_for_itself(data: Path, variable: str, kind: str) -> None:
    found = run(data, "-c", SHOW, **{variable: GIVEN[variable]}, DEBUG="1")
    assert found.returncode == 0, found.stderr
    assert set(status(data)["servers"]) == {kind}


@pytest.mark.parametrize("arguments", [["help"], ["migrate", "--help"]])
def test_help_starts_nothing(data: Path, arguments: list[str]) -> None:
    found = run(data, "manage.py", *arguments)
    assert found.returncode == 0, found.stderr
    assert processes_of(data) == []


def test_a_key_for_development_is_made_up_once_and_kept_secret(data: Path) -> None:
    first, second = (
        json.loads(run(data, "-c", SHOW, **GIVEN, DEBUG="1").stdout)["key"] for _ in range(2)
    )
    assert first == second
    assert len(first) > 50
    assert stat.S_IMODE((data / "secret_key").stat().st_mode) == 0o600
    assert json.loads(run(data, "-c", SHOW, **GIVEN, SECRET_KEY="given").stdout)["key"] == "given"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"SECRET_KEY": ""}, "SECRET_KEY: must be set when DEBUG is off and DATABASE_URL is set"),
        ({"DATABASE_URL": "mysql://h/x"}, "DATABASE_URL: must begin with postgresql://"),
        ({"DATABASE_URL": "postgresql://h:x/x"}, "DATABASE_URL: has a port"),
        ({"REDIS_URL": "http://h"}, "REDIS_URL: must begin with redis://"),
        ({"DEBUG": "maybe"}, "DEBUG: must be one of"),
    ],
)
def test_a_wrong_variable_is_one_line(data: Path, given: dict[str, str], line: str) -> None:
    found = run(data, "manage.py", "check", **{**GIVEN, "SECRET_KEY": "k", **given})
    assert found.returncode == 2
    assert one_line(found.stderr).startswith(line)
    assert found.stdout == ""


@pytest.mark.parametrize("missing", KEYS)
def test_a_missing_key_of_an_installed_app_is_one_line(data: Path, missing: str) -> None:
    given = {**GIVEN, **KEYS, "SECRET_KEY": "k", missing: ""}
    given["DJANGO_SETTINGS_MODULE"] = "config.settings"
    found = run(data, "manage.py", "jobs", "worker", **given)
    assert found.returncode == 2
    line = one_line(found.stderr)
    assert line.startswith(f"{missing}: ") and "python -m jobs.newkey makes a key" in line
    assert "emailgw." in line


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@127.0.0.1:1/jobs",
        "postgresql://ann:hunter2@localhost:1/jobs",
        "postgresql://ann:hunter2@/jobs?host=/nowhere",
        "postgresql://ann:hunter2@no-such-host.invalid/jobs",
    ],
)
def test_a_database_that_cannot_be_reached_is_named(
    url: str, django_db_blocker: DjangoDbBlocker
) -> None:
    away = parse_database_url(url).as_django()
    with django_db_blocker.unblock(), pytest.raises(OperationalError) as refused:
        ConnectionHandler({"default": away})["default"].ensure_connection()
    assert command.unreachable(refused.value) == "DATABASE_URL"
    assert "hunter2" not in str(refused.value)


def test_a_database_that_does_not_exist_is_one_line(data: Path) -> None:
    with User(data, "postgres") as user:
        url = user.urls["postgres"].replace("/postgres?", "/absent?")
        found = run(data, "manage.py", "migrate", **{**GIVEN, "DATABASE_URL": url}, SECRET_KEY="k")
        assert found.returncode == 2
        line = one_line(found.stderr)
        assert line.startswith("DATABASE_URL: the server cannot be reached: ")
        assert '"absent" does not exist' in line


def test_a_redis_that_cannot_be_reached_is_one_line(data: Path) -> None:
    ping = "import django_rq; django_rq.get_connection().ping()"
    code = f"from config import command; command.run(['manage.py', 'shell', '-c', '{ping}'])"
    found = run(data, "-c", code, **GIVEN, SECRET_KEY="k")
    assert found.returncode == 2
    assert one_line(found.stderr).startswith("REDIS_URL: the server cannot be reached: ")


def test_a_foreign_data_folder_is_one_line(folder: Path) -> None:
    (folder / "data").write_text("a file")
    found = run(folder / "data", "manage.py", "check")
    assert found.returncode == 2
    assert one_line(found.stderr).startswith("DATABASE_URL and REDIS_URL: not set, and ")


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["manage.py", "migrate"], True),
        (["./manage.py", "shell"], True),
        (["manage.py"], False),
        (["manage.py", "help", "migrate"], False),
        (["manage.py", "migrate", "-h"], False),
        (["manage.py", "--version"], False),
        (["/usr/bin/pytest", "--help"], True),
        ([".venv/bin/mypy", "."], False),
        (["-c"], True),
        ([], True),
    ],
)
def test_what_needs_servers(arguments: list[str], needed: bool) -> None:
    assert environment.needs_servers(arguments) is needed


def test_words_and_flags(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME", " a, ,b ")
    assert environment.words("SOME", []) == ["a", "b"]
    monkeypatch.setenv("SOME", "ON")
    assert environment.flag("SOME", default=False) is True
    monkeypatch.setenv("SOME", "")
    assert environment.flag("SOME", default=True) is True
    assert environment.words("SOME", ["x"]) == ["x"]
    monkeypatch.setenv("SOME", "2")
    with pytest.raises(SystemExit) as caught:
        environment.flag("SOME", default=True)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("SOME: must be one of")


# Without the apps, whose start takes ten times as long.
LOGS = (
    "import logging.config; from django.conf import settings; "
    "logging.config.dictConfig(settings.LOGGING); "
)
LINE = LOGS + ("logging.getLogger('jobs.x').warning('mail to ann.b@example.com')")


@pytest.mark.parametrize("chosen", ["json", "console", None])
def test_the_format_of_logs_is_a_setting(data: Path, chosen: str | None) -> None:
    given = {} if chosen is None else {"LOG_FORMAT": chosen}
    module = {"DJANGO_SETTINGS_MODULE": "config.settings"}
    found = run(data, "-c", LINE, **GIVEN, **KEYS, **module, **given, SECRET_KEY="k")
    line = one_line(found.stderr)
    assert "ann.b" not in line
    if chosen == "json":
        told = json.loads(line)
        assert (told["level"], told["logger"]) == ("WARNING", "jobs.x")
    else:
        assert " WARNING jobs.x mail to " in line and not line.startswith("{")


def test_another_format_of_logs_is_one_line(data: Path) -> None:
    found = run(data, "-c", SHOW, **GIVEN, SECRET_KEY="k", LOG_FORMAT="xml")
    assert found.returncode == 2
    assert one_line(found.stderr).startswith("LOG_FORMAT: ")


# ---- what the environment says of JOBS, of logs and of the cache

SHOW_JOBS = (
    LOGS + "import json; from jobs import conf; "
    "s = conf.settings(); print(json.dumps([list(s.HTTP_ALLOW), s.WEBHOOKS, s.METRICS_TOKEN, "
    "dict(s.API_RATES), s.API_PROXIES, logging.getLogger().level]))"
)
MODULE = {"DJANGO_SETTINGS_MODULE": "config.settings"}


def test_the_environment_sets_what_differs_between_installations(data: Path) -> None:
    given = {
        "HTTP_ALLOW": "10.0.0.0/8, erp.internal", "WEBHOOKS": "on", "METRICS_TOKEN": "t" * 16,
        "API_RATES": "read=5/s, refused=1/m", "API_PROXIES": "2", "LOG_LEVEL": "Warning",
    }  # fmt: skip
    found = run(data, "-c", SHOW_JOBS, **GIVEN, **KEYS, **MODULE, **given, SECRET_KEY="k")
    assert json.loads(found.stdout) == [
        ["10.0.0.0/8", "erp.internal"], True, "t" * 16,
        {"read": "5/s", "write": "300/m", "refused": "1/m"}, 2, 30,
    ]  # fmt: skip
    found = run(data, "-c", SHOW_JOBS, **GIVEN, **KEYS, **MODULE, SECRET_KEY="k")
    rates = {"read": "600/m", "write": "300/m", "refused": "30/m"}
    assert json.loads(found.stdout) == [[], False, "", rates, 0, 20]


@pytest.mark.parametrize(
    ("variable", "value", "line"),
    [
        ("HTTP_ALLOW", "8.8.8.8", "HTTP_ALLOW: '8.8.8.8' is not loopback or private"),
        ("HTTP_ALLOW", "10.0.0.0/8,a b", "HTTP_ALLOW: 'a b' is neither a network"),
        ("WEBHOOKS", "maybe", "WEBHOOKS: must be one of"),
        ("METRICS_TOKEN", "hunter2", "METRICS_TOKEN: must have at least 16 characters"),
        ("API_RATES", "600/m", "API_RATES: must be like read=600/m"),
        ("API_RATES", "reads=600/m", "API_RATES: has no 'reads'"),
        ("API_RATES", "read=fast", "API_RATES: read must be like '600/m', got 'fast'"),
        ("API_PROXIES", "one", "API_PROXIES: must be a number"),
        ("API_PROXIES", "11", "API_PROXIES: must lie between 0 and 10"),
        ("LOG_LEVEL", "loud", "LOG_LEVEL: must be one of debug, info"),
    ],
)
def test_a_wrong_value_stops_the_start(
    variable: str, value: str, line: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit) as ended:
        environment.log_level()
        environment.jobs_settings()
    assert ended.value.code == 2
    told = one_line(capsys.readouterr().err)
    assert told.startswith(line) and "hunter2" not in told


def test_a_wrong_value_is_one_line_of_a_program(data: Path) -> None:
    found = run(data, "manage.py", "check", **GIVEN, SECRET_KEY="k", API_PROXIES="many")
    assert (found.returncode, found.stdout) == (2, "")
    assert one_line(found.stderr) == "API_PROXIES: must be a number of proxies, got 'many'"


LINES = LOGS + (
    "logging.getLogger('publisher.posts').info('posted by ann.b@example.com', extra={'post': 7}); "
    "logging.getLogger('publisher').debug('quiet'); "
    "logging.getLogger('httpx').info('GET https://example.com/?token=x'); "
    "logging.getLogger('django.request').warning('Not Found: /x'); "
    "logging.getLogger('django.request').error('failed')"
)


def lines(data: Path, **given: str) -> list[tuple[str, str]]:
    module = {**MODULE, "LOG_FORMAT": "json"}
    found = run(data, "-c", LINES, **GIVEN, **KEYS, **module, **given, SECRET_KEY="k")
    told = [json.loads(line) for line in found.stderr.splitlines()]
    assert "ann.b" not in found.stderr
    return [(line["logger"], line["level"]) for line in told]


def test_loggers_of_apps_come_out_in_the_same_chain(data: Path) -> None:
    assert lines(data) == [("publisher.posts", "INFO"), ("django.request", "ERROR")]
    assert lines(data, DEBUG="on") == lines(data), "and once, also with DEBUG"
    assert ("publisher", "DEBUG") in lines(data, LOG_LEVEL="debug")
    assert lines(data, LOG_LEVEL="critical") == []


CACHE = "import django; django.setup(); from django.core.cache import cache; print({})"


def test_processes_share_the_cache(data: Path) -> None:
    def said(code: str) -> str:
        found = run(data, "-c", CACHE.format(code), **MODULE, **KEYS)
        assert found.returncode == 0, found.stderr
        return str(found.stdout).strip()

    count = "cache.add('n', 1) or cache.incr('n'), cache.get_or_set('k', {'a': [1]})"
    assert [said(count) for _ in range(2)] == ["True {'a': [1]}", "2 {'a': [1]}"]


def test_every_variable_is_documented() -> None:
    """In the one table, or, where they are an app's, in that of its page."""
    source = "".join(
        (ROOT / "config" / name).read_text() for name in ("settings.py", "environment.py")
    )
    asked = r'(?:environ\.get|flag|choice|words|fail|_given|_parse|_secret)\(\s*"([A-Z0-9_]+)"'
    read = set(re.findall(asked, source)) | {"JOBDESK_DATA"}
    documented = first_cells(section("docs/operating.md", "Environment"))
    apps = ("emailgw", "fileproc", "operations", "publisher", "trading")
    of_apps = [cell for app in apps for cell in first_cells(text(f"docs/{app}.md"))]
    assert len(documented) == len(set(documented))
    assert set(documented) <= read <= {*documented, *of_apps}


def test_settings_of_documents_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {
        "INDEX": "azure", "INDEX_URL": "https://a.search.windows.net", "INDEX_KEY": "k",
        "FILEPROC_QUOTA_BATCHES": "0", "FILEPROC_CHUNK_OVERLAP": "-1",
        "FILEPROC_RATES": "extract=200/m, embed=1/s", "FILEPROC_TIMEOUTS": "chunk=30",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = environment.documents("json")
    assert found == {
        "EMBEDDER": "auto", "INDEX": "azure", "INDEX_URL": "https://a.search.windows.net",
        "INDEX_KEY": "k", "QUOTA_BATCHES": 0, "CHUNK_OVERLAP": -1,
        "RATES": {"extract": "200/m", "embed": "1/s"}, "TIMEOUTS": {"chunk": 30},
    }  # fmt: skip
    assert environment.documents("no_such_package") is None
    for name, wrong in (
        ("FILEPROC_QUOTA_BYTES", "10 GB"), ("FILEPROC_RATES", "read=1/m"),
        ("FILEPROC_ATTEMPTS", "extract"), ("INDEX", "elastic"),
    ):  # fmt: skip
        with monkeypatch.context() as patch, pytest.raises(SystemExit):
            patch.setenv(name, wrong)
            environment.documents("json")
        assert capsys.readouterr().err.startswith(f"{name}: must be")


def test_blobs_are_in_a_folder_or_in_a_bucket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ENDPOINT", "BUCKET", "REGION", "ACCESS_KEY", "SECRET_KEY", "SECRET_KEY_FILE"):
        monkeypatch.delenv(f"S3_{name}", raising=False)
    monkeypatch.delenv("BLOB_ROOT", raising=False)
    assert environment.blobs(tmp_path) == {"STORE": "local", "ROOT": str(tmp_path / "blobs")}
    monkeypatch.setenv("BLOB_ROOT", "/srv/blobs")
    assert environment.blobs(tmp_path)["ROOT"] == "/srv/blobs"
    values = {"ENDPOINT": "https://s3.example.com", "BUCKET": "b", "ACCESS_KEY": "k"}
    for name, value in values.items():
        monkeypatch.setenv(f"S3_{name}", value)
    with pytest.raises(SystemExit):
        environment.blobs(tmp_path)
    assert capsys.readouterr().err.startswith("S3_SECRET_KEY: is needed")
    (tmp_path / "secret").write_text("s\n")
    monkeypatch.setenv("S3_SECRET_KEY_FILE", str(tmp_path / "secret"))
    found = {"ENDPOINT": "https://s3.example.com", "BUCKET": "b", "KEY_ID": "k", "SECRET": "s"}
    assert environment.blobs(tmp_path) == {"STORE": "s3", "REGION": "us-east-1", **found}
    monkeypatch.setenv("S3_REGION", "eu-central-1")
    assert environment.blobs(tmp_path)["REGION"] == "eu-central-1"
