"""Paste the Python blocks of documents into a project, as a reader does.

``python -m tests.docs.paste DATABASE DOCUMENT...`` prints what went wrong in each, as JSON. Every
document has a process of its own, in which its blocks may register whatever they like.
"""

# Running what the documents show is the point.
# ruff: noqa: S102

from __future__ import annotations

import json
import os
import sys
import tempfile
import unittest
from copy import deepcopy
from importlib import reload
from logging.config import dictConfig
from pathlib import Path
from types import ModuleType
from typing import Any

import django

from tests.docs import pages

SERVERS = {"DATABASES", "RQ_QUEUES", "CACHES"}
"""Settings that stay those of the test, whose servers are not those of the documents."""
SECRETS = {"KEYS", "INDEX_KEY", "DATABASE", "CONNECTION"}
"""Keys of ``JOBS`` for which the same is true."""


def new_project() -> dict[str, Any]:
    """Return the settings of ``startproject`` with the jobs, which documents may extend."""
    template = Path(django.__file__).parent / "conf/project_template/project_name/settings.py-tpl"
    code = template.read_text().replace("{{", "").replace("}}", "")
    found: dict[str, Any] = {"__file__": __file__}
    exec(compile(code, str(template), "exec"), found)
    exec(pages.install().code, found)
    return {name: value for name, value in found.items() if name.isupper()}


class Project:
    """The project of a reader, while the blocks of one document are pasted into it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module = ModuleType("shop.pasted")
        self.settings = new_project()
        self._tables: set[str] = set()
        self._hold("shop.pasted")

    def paste(self, block: pages.Block) -> None:
        """Run a block; the modules whose files are named share the names of the document."""
        if block.file == "settings.py":
            self._set(block)
            return
        if block.file:
            self._hold(block.module)
        self._run(block, vars(self.module))
        self._create_tables()
        if block.file == "urls.py":
            self._serve(block.module)

    def test(self) -> None:
        """Run the tests that the document shows."""
        for name, value in list(vars(self.module).items()):
            if name.startswith("test_") and callable(value):
                value(None)

    def _run(self, block: pages.Block, space: dict[str, Any]) -> None:
        exec(compile(block.in_place, self.name, "exec", dont_inherit=True), space)

    def _hold(self, module: str) -> None:
        """Let the names of the document be imported from this module."""
        sys.modules[module] = self.module
        package, _, name = module.rpartition(".")
        if package in sys.modules:
            setattr(sys.modules[package], name, self.module)

    def _set(self, block: pages.Block) -> None:
        from django.apps import AppConfig
        from django.conf import settings
        from django.test import override_settings

        from jobs import conf, handlers

        before = deepcopy(self.settings)
        self._run(block, self.settings)
        changed = {
            name: value
            for name, value in self.settings.items()
            if name.isupper() and before.get(name) != value
        }
        assert changed, "the block changes no setting"
        if "JOBS" in changed:
            conf.parse(changed["JOBS"])
            of_reader = {k: v for k, v in changed["JOBS"].items() if k not in SECRETS}
            changed["JOBS"] = {**settings.JOBS, **of_reader}
        if "RQ_QUEUES" in changed:
            assert conf.parse(self.settings["JOBS"]).CONNECTION in changed["RQ_QUEUES"]
        for app in changed.pop("INSTALLED_APPS", ()):
            AppConfig.create(app)
        for name in SERVERS:
            changed.pop(name, None)
        override_settings(**changed).enable()
        if "JOBS" in changed:
            reload(handlers)  # which depend on the settings
        if "LOGGING" in changed:
            dictConfig(changed["LOGGING"])

    def _serve(self, module: str) -> None:
        from django.core import checks
        from django.test import override_settings

        override_settings(ROOT_URLCONF=module).enable()
        assert checks.run_checks(tags=[checks.Tags.urls]) == []

    def _create_tables(self) -> None:
        from django.apps import apps
        from django.db import connection

        for name, model in apps.all_models["shop"].items():
            if name not in self._tables and not model._meta.auto_created:
                with connection.schema_editor() as editor:
                    editor.create_model(model)
                self._tables.add(name)


def problems(name: str) -> str:
    """Return what goes wrong when the blocks of a document are pasted in their order."""
    from django.test import TestCase

    from tests.docs import results

    class Pasted(TestCase):
        def runTest(self) -> None:
            project = Project(name)
            for block in pages.python(name):
                if not block.calls_a_server:
                    project.paste(block)
            project.test()
            if check := results.OF.get(name):
                check(vars(project.module))

    result = unittest.TestResult()
    unittest.TestSuite([Pasted()]).run(result)
    return "\n".join(told for _, told in [*result.errors, *result.failures])


def apart(name: str) -> str:
    """Return the problems of a document, found by a process of its own."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        code = 1
        try:
            with os.fdopen(writing, "w") as pipe:
                pipe.write(problems(name))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read()
    _, status = os.waitpid(child, 0)
    return found or ("" if status == 0 else f"its process ended with the status {status}")


def main(database: str, *names: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder) / "shop"
        app.mkdir()
        (app / "__init__.py").touch()
        sys.path.insert(0, folder)
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.docs.project"
        django.setup()
        from django.db import connection
        from django.test.utils import setup_test_environment

        connection.settings_dict["NAME"] = database
        setup_test_environment()
        print(json.dumps({name: apart(name) for name in names}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
