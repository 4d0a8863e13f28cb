"""What docs/privacy.md shows works."""

# Running what the document shows is the point.
# ruff: noqa: S102

from __future__ import annotations

import re
from logging.config import dictConfig
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import isolate_apps

import jobs
from jobs import conf, registry, testing
from jobs.fields import mask, mask_document, mask_email

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "privacy.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
SETTINGS, PAYLOAD, VOUCHED, MODEL, SEARCH, LOGGING = BLOCKS


@pytest.mark.usefixtures("keys")
def test_its_payload_and_its_handler_work(db: None) -> None:
    space: dict[str, Any] = {}
    # Without this module's own future import, which would leave its types unresolved.
    exec(compile(PAYLOAD, "privacy.md", "exec", dont_inherit=True), space)
    try:
        testing.check_handler(space["RegisterCustomer"](customer_id=1, cpf="529.982.247-25"))
    finally:
        registry.unregister("crm.register")


@pytest.mark.usefixtures("keys")
def test_its_handler_vouches_for_what_it_tells(db: None) -> None:
    space: dict[str, Any] = {"jobs": jobs}
    exec(compile(VOUCHED, "privacy.md", "exec", dont_inherit=True), space)
    try:
        made = jobs.enqueue(space["GreetCustomer"](customer_id=1, name="Sent"))
        testing.run_jobs()
    finally:
        registry.unregister("crm.greet")
    assert jobs.Job.objects.get(pk=made.id).result == {"status": "sent"}
    [event] = testing.emitted("crm.greeted")
    assert event.payload == {"customer": 1, "status": "sent"}


@pytest.mark.usefixtures("keys")
def test_its_model_and_its_search_work(db: None) -> None:
    space: dict[str, Any] = {"__name__": "tests.specimens.guide"}
    with isolate_apps("tests.specimens"):
        exec(MODEL, space)
    model = space["Recipient"]
    assert model.check() == []
    with connection.schema_editor() as editor:
        editor.create_model(model)
    made = model.objects.create(company="acme", cpf="529.982.247-25")
    exec(SEARCH, space)
    assert [one.pk for one in space["recipient_of"]("acme", "52998224725")] == [made.pk]
    assert not space["recipient_of"]("other", "52998224725")


def test_its_settings_parse() -> None:
    space: dict[str, Any] = {}
    exec(SETTINGS, space)
    assert list(conf.parse(space["JOBS"]).KEYS) == ["2026", "2025"]


def test_its_logging_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {}
    exec(LOGGING, space)
    del space["LOGGING"]["root"]  # pytest's own handlers stay
    dictConfig({**space["LOGGING"], "incremental": False, "disable_existing_loggers": False})


def test_its_masks_are_these() -> None:
    for call, shown in re.findall(r'^\| `(mask\w*\(".*?"\))` \| `(.*?)` \|', GUIDE, re.MULTILINE):
        assert eval(call) == shown  # noqa: S307
    assert (mask("4111111111111111", keep=4), mask_email("a"), mask_document("")) == (
        "***1111",
        "***",
        "***",
    )
