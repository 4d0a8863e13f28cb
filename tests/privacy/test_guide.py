"""The masks of docs/privacy.md are what it says; its blocks run with those of all documents."""

from __future__ import annotations

import re

from jobs.fields import mask, mask_document, mask_email
from tests.docs.pages import text


def test_its_masks_are_these() -> None:
    calls = re.findall(r'^\| `(mask\w*\(".*?"\))` \| `(.*?)` \|', text("docs/privacy.md"), re.M)
    assert len(calls) == 2
    for call, shown in calls:
        assert eval(call) == shown  # noqa: S307
    assert (mask("4111111111111111", keep=4), mask_email("a"), mask_document("")) == (
        "***1111",
        "***",
        "***",
    )
