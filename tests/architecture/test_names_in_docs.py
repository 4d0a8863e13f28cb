"""The documents name nothing that the library does not offer."""

from __future__ import annotations

from pathlib import Path

import pytest

import jobs
from tests.architecture import documented
from tests.architecture.sources import ROOT

PUBLIC = frozenset(jobs.__all__)
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_names_only_what_is_public(path: Path) -> None:
    assert documented.private(path.read_text(), ROOT, PUBLIC) == []


def test_names_are_found_in_the_documents() -> None:
    found = {one.path for path in DOCUMENTS for one in documented.names(path.read_text())}
    assert {"jobs.enqueue", "jobs.errors.StaleClaim", "jobs.middleware.RequestMiddleware"} <= found
    assert {"jobs.testing.run_jobs", "jobs.flow.pause", "jobs.client.Client"} <= found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Call `jobs.operate.bulk` with it.", "jobs.operate.bulk"),
        ("Call `with jobs.engine.claims.claim(7): …` then.", "jobs.engine.claims.claim"),
        ("Say `from jobs import conf`.", "jobs.conf"),
        ("Say `import jobs.redaction`.", "jobs.redaction"),
        ("Call `jobs.enqeue(Payload())`.", "jobs.enqeue"),
        ("Call `jobs.flow.nothing()`.", "jobs.flow.nothing"),
        ("It is `jobs.metrics.page`.", "jobs.metrics.page"),
        ("```python\nfrom jobs.operate import outbox\n```\n", "jobs.operate.outbox"),
        ("```python\nfrom jobs import flow\n\nflow.nothing()\n```\n", "jobs.flow.nothing"),
        ("```python\nimport jobs\n\njobs.enqeue(x)\n```\n", "jobs.enqeue"),
        ('```python\nX = {"()": "jobs.redaction.RedactingFilter"}\n```\n',
         "jobs.redaction.RedactingFilter"),
        ("* one\n\n  ```python\n  from jobs.conf import x\n  ```\n", "jobs.conf.x"),
        ("```sh\npython -m jobs.states_doc\n```\n", "jobs.states_doc"),
        ("Like this:\n\n    from jobs.conf import x\n\nSo.\n", "jobs.conf.x"),
    ],
)  # fmt: skip
def test_a_private_name_is_found(text: str, name: str) -> None:
    assert name in documented.private(text, ROOT, PUBLIC)


@pytest.mark.parametrize(
    "text",
    [
        "`jobs.job.failed`, `jobs.attempts`, `jobs.E006`, `jobs.fields.E003`: no Python.",
        "`jobs.Job.objects.failed().newest(20)` and `jobs.api.paging.page`.",
        "[jobs](jobs.operate.md), and jobs.operate in prose.",
        "```python\nfrom jobs.api import uploads\n\nuploads.login(request, 'add')\n```\n",
        "```yaml\nhost: https://jobs.conf.example.com/\n```\n",
    ],
)
def test_other_words_pass(text: str) -> None:
    assert documented.private(text, ROOT, PUBLIC) == []
