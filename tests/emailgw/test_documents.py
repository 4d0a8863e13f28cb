"""What the pages about the gateway say is what the gateway does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from emailgw import config, problems, verbs
from emailgw.errors import CATEGORIES, HELD, RETRIED
from emailgw.models import Status

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "emailgw.md").read_text()
ERRORS = PAGE[PAGE.index("## Errors") :]
LATER = HELD | {"SES_CIRCUIT_OPEN", "SES_MAX_SEND_RATE_EXCEEDED", "SES_DAILY_QUOTA_EXCEEDED"}


def test_every_code_of_an_email_is_told_with_what_follows() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([\w ]+) \|", ERRORS, re.MULTILINE)
    assert {code: category for code, category, _ in rows} == CATEGORIES
    for code, category, follows in rows:
        if code in LATER:
            assert follows == "later", code
        else:
            assert follows == ("tried again" if category in RETRIED else "failed"), code


def test_every_code_of_a_refusal_is_told_with_its_status() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d{3}) \|", ERRORS, re.MULTILINE)
    assert {int(status): code for code, status in rows} == problems._CODES


def test_every_setting_status_and_permission_is_told() -> None:
    for name in (f.name for f in fields(config.Settings)):
        assert f"`{name}`" in PAGE, name
    for status in Status.values:
        assert re.search(rf"\b{status}\b", PAGE), status
    for permission in verbs.PERMISSIONS:
        assert f"`{permission}`" in PAGE, permission
