"""``manage.py jobs startapp``: the app that it creates works, passes its checks and its tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

import jobs
from tests.architecture import sources
from tests.architecture.sources import ROOT
from tests.docs import pages

SETTINGS = """
from tests.settings import *

INSTALLED_APPS += ["courier"]
ROOT_URLCONF = "project_urls"
"""
URLS = """
from config.urls import *
from courier.api import router
from jobs.api import add_rest, build_api

api = build_api(urls_namespace="project")
api.add_router("/courier", router)
add_rest(api)
urlpatterns.append(path("project/", api.urls))
"""
USED = """
def test_its_operations(admin_client):
    note = {"url": "https://example.com/notes", "text": "hello", "tenant": "acme"}
    made = admin_client.post("/project/courier/notes", note, content_type="application/json")
    assert made.status_code == 201, made.content
    listed = admin_client.get("/project/courier/notes").json()["data"]
    assert listed == [made.json()] and listed[0]["url"] == note["url"]
    bad = {**note, "url": "http://169.254.169.254/"}
    refused = admin_client.post("/project/courier/notes", bad, content_type="application/json")
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/url")
    url = f"/project/courier/notes/{made.json()['id']}/resend"
    early = admin_client.post(url, {"reason": "x"}, content_type="application/json")
    assert early.status_code == 409, early.content
    job = {"kind": "courier.deliver", "payload": {"note_id": made.json()["id"]}}
    forged = admin_client.post("/project/jobs", job, content_type="application/json")
    assert forged.status_code == 422, forged.content
    nowhere = admin_client.get("/project/courier/notes/7/resend")
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "not-found")
"""


def run(folder: Path, *arguments: str) -> str:
    """The output of a Python program in a project that has the new app; it must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={
            **os.environ, "DJANGO_SETTINGS_MODULE": "project",
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def imported(code: str) -> set[str]:
    """Every name that the code imports, with the module that it is imported from."""
    return {
        f"{getattr(node, 'module', None)} {alias.name}"
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a project in which the app has just been created."""
    (tmp_path / "project.py").write_text(SETTINGS)
    (tmp_path / "project_urls.py").write_text(URLS)
    (tmp_path / "courier").mkdir()
    call_command("jobs", "startapp", "courier", str(tmp_path / "courier"))
    return tmp_path


@pytest.mark.slow
def test_the_new_app_passes_the_checks_and_its_own_tests(folder: Path) -> None:
    django = ("-m", "django")
    assert "no issues" in run(folder, *django, "check")
    assert "No changes" in run(folder, *django, "makemigrations", "--check", "--dry-run")
    told = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "courier")
    assert "7 passed" in told
    assert "Ran 7 tests" in run(folder, *django, "test", "courier")


def test_the_guide_shows_the_code_of_the_new_app(folder: Path) -> None:
    shown = list(pages.python("docs/building-an-app.md"))
    assert len(shown) == 3
    for block in shown:
        code = (folder / block.file).read_text()
        head, _, body = block.code.partition("\n")[2].rpartition("\n\n\n")
        assert body in code
        assert imported(head) <= imported(code)


@pytest.mark.slow
def test_the_operations_of_the_new_app_work(folder: Path) -> None:
    (folder / "test_used.py").write_text(USED)
    told = run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_used.py")
    assert "1 passed" in told


def test_the_new_app_keeps_to_the_public_modules(folder: Path) -> None:
    """As one of the domain apps, which alone the rules are about."""
    app = folder / "trading"
    (folder / "courier").rename(app)
    for file in app.rglob("*.py"):
        file.write_text(file.read_text().replace("courier", "trading"))
    public = frozenset(jobs.__all__)
    assert sources.wrong_arrows(folder, public) == []
    assert sources.ways_out(folder, frozenset()) == []
    assert sources.unsafe_calls(folder) == []


def test_a_project_that_names_the_app_already_can_create_it(tmp_path: Path) -> None:
    (tmp_path / "project.py").write_text(SETTINGS.replace('INSTALLED_APPS += ["courier"]', ""))
    (tmp_path / "project_urls.py").write_text(URLS)
    run(tmp_path, "-m", "django", "jobs", "startapp", "courier")
    assert (tmp_path / "courier" / "api.py").is_file()


def test_the_next_steps_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "parcels").mkdir()
    call_command("jobs", "startapp", "parcels", str(folder / "parcels"))
    assert 'Add "parcels" to INSTALLED_APPS' in capsys.readouterr().out


@pytest.mark.parametrize("name", ["2nd", "my-app", "jobs"])
def test_a_name_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"not a valid app name|conflicts with the name"):
        call_command("jobs", "startapp", name, str(tmp_path))
    assert list(tmp_path.iterdir()) == []
