"""A process that needs a key and has none does not start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps

import jobs
from jobs import protection, registry
from jobs.checks.settings import keys_are_there
from jobs.errors import ConfigError
from tests.architecture.sources import DOMAIN_APPS
from tests.privacy import vault
from tests.privacy.vault import Person, Register

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def no_domain_apps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this process, too, nothing but what a test makes needs keys."""
    models, sealed = apps.get_models(), [h for h in registry.handlers() if h.payload.__sensitive__]
    ours = [model for model in models if model._meta.app_label not in DOMAIN_APPS]
    monkeypatch.setattr(apps, "get_models", lambda *args, **kwargs: ours)
    for handler in sealed:
        registry.unregister(handler.kind)
    yield
    for handler in sealed:
        registry._register(handler)


def process(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.privacy.shop.settings",
        "SHOP_JOBS": json.dumps(settings),
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )


START = ("-c", "import django; django.setup(); print('started')")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "JOBS['KEYS'] is missing"),
        ({"KEYS": {"k": "env:NO_SUCH_KEY"}}, "NO_SUCH_KEY is not set"),
        ({"KEYS": {"k": vault.OLD[:20]}}, "instead of 32"),
    ],
)
def test_a_missing_key_stops_the_start(settings: dict[str, Any], told: str) -> None:
    ended = process(*START, **settings)
    assert ended.returncode != 0
    assert told in ended.stderr
    assert "shop.order" in ended.stderr
    assert "started" not in ended.stdout
    assert vault.OLD[:20] not in ended.stderr


def test_with_its_key_it_starts() -> None:
    ended = process(*START, **vault.KEYS)
    assert (ended.returncode, ended.stdout) == (0, "started\n"), ended.stderr


def test_the_check_says_it_as_a_message() -> None:
    ended = process("manage.py", "check")
    assert ended.returncode == 1
    assert "(jobs.E040) JOBS['KEYS'] is missing" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_nothing_is_asked_of_a_project_that_protects_nothing(settings: Any) -> None:
    settings.JOBS = {}
    protection.require_keys()
    assert keys_are_there() == []


def test_whatever_is_protected_asks_for_its_key(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "get_models", lambda: [Person])
    settings.JOBS = {}
    assert [m.id for m in keys_are_there()] == ["jobs.E040", "jobs.E041"]
    with pytest.raises(ConfigError, match=r"for specimens\.Person\.cpf and 2 more"):
        protection.require_keys()
    settings.JOBS = {"KEYS": vault.KEYS["KEYS"]}
    with pytest.raises(ConfigError, match=r"INDEX_KEY.* \(for specimens\.Person\.cpf_index\)"):
        protection.require_keys()
    settings.JOBS = vault.KEYS
    protection.require_keys()
    assert keys_are_there() == []


def test_a_kind_with_sensitive_fields_asks_for_its_key(settings: Any) -> None:
    jobs.handler(Register)(lambda ctx, payload: None)
    try:
        settings.JOBS = {}
        assert "(for privacy.register)" in protection.key_problem()
    finally:
        registry.unregister(Register.kind)


def test_without_the_library_the_core_works_and_protection_says_what_to_install() -> None:
    hidden = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import django; django.setup()\n"
        "from django.test.utils import override_settings\n"
        "import jobs; from jobs import keyring; import jobs.fields\n"
        "with override_settings(JOBS={'KEYS': {'k': 'A' * 43}}):\n"
        "    try: keyring.ring()\n"
        "    except jobs.errors.ConfigError as error: print(error)\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.privacy.bare_settings"}
    ended = subprocess.run(
        [sys.executable, "-c", hidden], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert "pip install 'django-jobdesk[privacy]'" in ended.stdout, ended.stderr
