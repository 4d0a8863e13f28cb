"""What the documents say is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from jobs.operate.doctor import EVERY

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))


def text(name: str) -> str:
    return (ROOT / name).read_text()


def one_line(passage: str) -> str:
    return " ".join(passage.split())


def test_every_invariant_is_documented_in_its_own_words() -> None:
    sections = re.split(r"^### ", text("docs/invariants.md"), flags=re.MULTILINE)[1:]
    told = {section.split("\n", 1)[0]: one_line(section) for section in sections}
    assert list(told) == [invariant.name for invariant in EVERY]
    for invariant in EVERY:
        assert invariant.statement in told[invariant.name]
        assert f"kept by: {invariant.kept_by}" in told[invariant.name]
        assert invariant.remedy in told[invariant.name]
        assert re.search(r"attacked by: `tests/\S+::test_\w+`", told[invariant.name])


def test_every_test_that_a_document_names_exists() -> None:
    for document in DOCS:
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", document.read_text()):
            tree = ast.parse(text(path))
            names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert name in names, f"{document.name}: {path}::{name}"
