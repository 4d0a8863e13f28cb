"""The scenes of the demo."""

from __future__ import annotations

import pytest

from config.demo.fileproc import DocumentAct
from jobs import demo
from tests.fileproc.conftest import process

pytestmark = pytest.mark.django_db
TITLES = {
    "a document, uploaded and found", "a document that unpacks to 400 MB",
    "a broken PDF, retried once by hand", "a document, processed again while it is found",
    "a folder with six documents, of which one is broken",
    "a document whose worker is killed while it is embedded",
}  # fmt: skip
GO_ON = {"a document, processed again while it is found", "a broken PDF, retried once by hand"}
"""Those that begin again when they have ended once."""


def test_every_scene_ends_as_it_should() -> None:
    acts = [kind("m", "") for kind in demo.of_apps() if issubclass(kind, DocumentAct)]
    assert {act.title for act in acts} == TITLES
    for act in acts:
        act.begin()
    assert not any(act.is_over() for act in acts)
    process(8)
    assert {act.title for act in acts if not act.is_over()} == GO_ON
    process(8)
    assert all(act.is_over() for act in acts)
    assert [act.verdict() for act in acts if not act.verdict()[0]] == []
