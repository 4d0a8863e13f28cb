"""Importing a bucket by one command."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fileproc.models import File
from fileproc.services import search
from jobs import blobs
from tests.blobs import seaweed
from tests.blobs.conftest import bucket
from tests.fileproc.conftest import process

__all__ = ["bucket"]  # a fixture
pytestmark = pytest.mark.django_db


@pytest.fixture
def there(bucket: seaweed.Server, settings: Any) -> blobs.S3Store:
    """A bucket of others, whose server the settings name."""
    settings.JOBS = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
    server = {
        "ENDPOINT": bucket.endpoint, "REGION": seaweed.REGION, "KEY_ID": seaweed.KEY_ID,
        "SECRET": seaweed.SECRET,
    }  # fmt: skip
    settings.FILEPROC = {"EMBEDDER": "none", "IMPORT_S3": server}
    return blobs.S3Store(
        endpoint=bucket.endpoint, bucket=seaweed.BUCKET, region=seaweed.REGION,
        key_id=seaweed.KEY_ID, secret=seaweed.SECRET, any_key=True,
    )  # fmt: skip


def imported(address: str, *options: str) -> tuple[Any, str]:
    out = io.StringIO()
    call_command("fileproc", "upload", address, "--owner=acme", "--json", *options, stdout=out)
    *lines, counts = out.getvalue().splitlines()
    return json.loads(counts), "\n".join(lines)


@pytest.mark.slow
def test_what_is_new_in_a_bucket_is_imported_once(there: blobs.S3Store) -> None:
    folder = f"s3://{seaweed.BUCKET}/papers"
    for key, text in {
        "papers/Übersicht (1) + 50%.txt": b"The keeper repairs the lamp.",
        "papers/deep/a&b=c.md": b"# Fog\n\nNobody rows in fog.",
        "papers/.hidden/c.txt": b"hidden", "papers/program.exe": b"MZ",
        "papers/empty.txt": b"", "other/d.txt": b"other",
    }.items():  # fmt: skip
        there.write(key, text)
    counts = {"sent": 2, "there": 0, "retried": 0, "failed": 0, "refused": 2}
    assert imported(folder) == (counts, "")
    process(4)
    found = {(one.path, one.name, one.status) for one in File.objects.all()}
    assert found == {
        ("blobs/papers", "Übersicht (1) + 50%.txt", "ready"),
        ("blobs/papers/deep", "a&b=c.md", "ready"),
    }
    assert [hit.file_name for hit in search.search("acme", "lamp").hits] == [
        "Übersicht (1) + 50%.txt"
    ]
    assert imported(folder)[0] == {**counts, "sent": 0, "there": 2}
    there.write("papers/deep/a&b=c.md", b"# Fog\n\nEverybody rows in fog, carefully.")
    assert imported(folder, "--replace")[0] == {**counts, "sent": 1, "there": 1}
    process(4)
    texts = [hit.text for hit in search.search("acme", "fog").hits]
    assert len(texts) == 1 and "carefully" in texts[0]


@pytest.mark.slow
def test_the_server_of_the_store_is_the_one_unless_another_is_named(
    there: blobs.S3Store, bucket: seaweed.Server, settings: Any
) -> None:
    settings.FILEPROC = {"EMBEDDER": "none"}
    settings.JOBS = {
        **settings.JOBS,
        "BLOBS": {
            "STORE": "s3", "ENDPOINT": bucket.endpoint, "BUCKET": seaweed.BUCKET,
            "REGION": seaweed.REGION, "KEY_ID": seaweed.KEY_ID, "SECRET": seaweed.SECRET,
        },
    }  # fmt: skip
    there.write("own papers/a b.txt", b"The lamp.")
    counts, _ = imported(f"s3://{seaweed.BUCKET}/own papers/")
    assert counts["sent"] == 1
    process(4)
    assert File.objects.get().status == "ready"


@pytest.mark.slow
def test_a_bucket_that_cannot_be_read_is_one_sentence(there: blobs.S3Store, settings: Any) -> None:
    with pytest.raises(CommandError, match="404"):
        imported("s3://nobody-has-this/papers")
    given = settings.FILEPROC["IMPORT_S3"]
    settings.FILEPROC = {"EMBEDDER": "none", "IMPORT_S3": {**given, "SECRET": "a wrong one"}}
    with pytest.raises(CommandError, match="403") as caught:
        imported(f"s3://{seaweed.BUCKET}")
    assert "Signature" not in str(caught.value)


def test_a_bucket_needs_a_server_and_a_name(settings: Any) -> None:
    with pytest.raises(CommandError, match="IMPORT_S3"):
        imported("s3://papers")
    with pytest.raises(CommandError, match="s3://bucket/folder"):
        imported("s3://")
