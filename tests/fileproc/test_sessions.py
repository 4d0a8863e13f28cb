"""The four sessions of the specification, typed into a shell with curl and jq."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fileproc import documents
from tests.fileproc.site import Site
from tests.integration.fleet import Fleet
from tests.wait import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("curl") and shutil.which("jq")), reason="there is no curl or no jq"
    ),
]
BEGIN = r"""
BATCH_ID=$(curl -sS -X POST $API/batches \
  -H "Authorization: Bearer $TOKEN" \
  -d "{\"fileCount\": $COUNT}" | jq -r .batchId)
echo $BATCH_ID
"""
ONE = r"""
RESPONSE=$(curl -sS -X POST $API/batches/$BATCH_ID/upload-urls \
  -H "Authorization: Bearer $TOKEN" \
  -d "{\"fileName\": \"$NAME\", \"fileSize\": $SIZE}")
FILE_ID=$(echo $RESPONSE | jq -r '.fileId')
UPLOAD_URL=$(echo $RESPONSE | jq -r '.uploadUrl')
curl -sS -X PUT "$UPLOAD_URL" -H "Content-Type: application/pdf" --data-binary @$FOLDER/$NAME
curl -sS -X POST $API/batches/$BATCH_ID/files/$FILE_ID/confirm \
  -H "Authorization: Bearer $TOKEN" \
  -d "{\"size\": $SIZE, \"md5\": \"abc123\"}" | jq -r '.status'
echo $FILE_ID
"""
MANY = (
    """
for i in {1..25}; do
  NAME=test$i.pdf
  cp $FOLDER/test.pdf $FOLDER/$NAME
"""
    + ONE
    + "done"
)
STATUS = r"""
curl -sS $API/files/$FILE_ID -H "Authorization: Bearer $TOKEN" | jq -r '.status'
"""
SUMMARY = r"""
curl -sS $API/batches/$BATCH_ID -H "Authorization: Bearer $TOKEN" | jq -c '.summary'
"""
ENTRY = r"""
curl -sS $API/dlq -H "Authorization: Bearer $TOKEN" \
  | jq -c '.entries[] | select(.fileId == "'$FILE_ID'") | [.stage, .attempts]'
"""
RETRY = r"""
curl -sS -X POST $API/dlq/$FILE_ID/retry -H "Authorization: Bearer $TOKEN" | jq -c .
"""


class Shell:
    """Somebody who types, with the variables of the sessions."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.variables = {
            "PATH": os.environ["PATH"], "API": f"{site.url}/api/v2/uploads",
            "TOKEN": site.keys["acme"], "FOLDER": str(folder),
        }  # fmt: skip

    def __call__(self, script: str, **variables: object) -> list[str]:
        """What it prints, line by line."""
        self.variables |= {name: str(value) for name, value in variables.items()}
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", script], env=self.variables, timeout=120,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]


def test_the_four_sessions_run_as_they_are_written(fleet: Fleet, tmp_path: Path) -> None:
    site = Site(fleet, tmp_path, with_origin=True)
    worker = site.worker()
    good, bad = documents.pdf(), b"%PDF-1.4 broken"
    (tmp_path / "test.pdf").write_bytes(good)
    (tmp_path / "corrupt.pdf").write_bytes(bad)
    shell = Shell(site, tmp_path)

    # 1: one file
    [batch] = shell(BEGIN, COUNT=1)
    status, file = shell(ONE, BATCH_ID=batch, NAME="test.pdf", SIZE=len(good))
    assert status == "queued"
    wait_until(lambda: shell(STATUS, FILE_ID=file) == ["ready"], 60, 0.5)

    # 2: 25 files
    [batch] = shell(BEGIN, COUNT=25)
    told = shell(MANY, BATCH_ID=batch, SIZE=len(good))
    assert told[::2] == ["queued"] * 25
    wait_until(
        lambda: shell(SUMMARY, BATCH_ID=batch) == ['{"total":25,"ready":25,"failed":0}'], 90, 0.5
    )

    # 3: the worker is killed in the middle of an extraction
    (tmp_path / "long.pdf").write_bytes(long := documents.pdf(*["word " * 400] * 300))
    [batch] = shell(BEGIN, COUNT=1)
    _, file = shell(ONE, BATCH_ID=batch, NAME="long.pdf", SIZE=len(long))
    wait_until(lambda: shell(STATUS, FILE_ID=file) != ["queued"], 30, 0.01)
    family = worker.family()
    worker.kill()
    for process in family:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    site.worker()
    wait_until(lambda: shell(STATUS, FILE_ID=file) == ["ready"], 120, 0.5)

    # 4: a dead letter
    [batch] = shell(BEGIN, COUNT=1)
    _, file = shell(ONE, BATCH_ID=batch, NAME="corrupt.pdf", SIZE=len(bad))
    wait_until(lambda: shell(ENTRY, FILE_ID=file) == ['["extracting",3]'], 60, 0.5)
    assert shell(RETRY, FILE_ID=file) == ['{"success":true}']
    assert shell(STATUS, FILE_ID=file)[0] in ("queued", "extracting")
