"""A project of somebody else that installs ``jobs`` and nothing more of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

SETTINGS = """
SECRET_KEY = "k" * 50
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "jobs"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}}
RQ_QUEUES = {"default": {"URL": "redis://localhost:6379/0"}}
"""
URLS = 'ROOT_URLCONF = "urls"\n'


@pytest.mark.parametrize("more", ["", URLS], ids=["workers only", "with pages"])
def test_its_check_has_nothing_to_say(more: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SETTINGS + more)
    (tmp_path / "urls.py").write_text("urlpatterns = []\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", "check", "--fail-level", "WARNING"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={
            **os.environ, "DJANGO_SETTINGS_MODULE": "shop",
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        },
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "no issues" in done.stdout
