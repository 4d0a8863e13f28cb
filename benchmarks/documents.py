"""Documents: confirmations, stages, the pipeline, and how soon and how well searches find."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import bench
from benchmarks.bench import Bench, manage
from benchmarks.processes import ROOT
from benchmarks.result import Check, Result, spread

TABLES = ("fileproc_batch", "fileproc_content", "fileproc_quota", "fileproc_cachedvector")
WORKER = manage(
    *("jobs", "worker", "--processes", "1", "--concurrency", "4"),
    *("--queues", "file-extract,file-chunk,file-embed,batch-completion"),
)


def confirm(b: Bench) -> Result:
    """Confirmations one by one and 500 at once; then how soon an idle worker begins to read."""
    _clear(b)
    with b.watching() as seen:
        made = _papers(b, "confirm", 20 if b.quick else 250)
    single = {**spread(made["single"]), **seen}
    many = {"seconds": round(made["many"], 3), "files": made["files"]}
    _clear(b)
    processes, _ = b.stage(_variables(b))
    with processes:
        processes.start(bench.dispatcher(), WORKER)
        processes.wait_idle()
        b.wait_quiet()
        with b.watching() as seen:
            begun = spread(_papers(b, "idle", 3 if b.quick else 40)["seconds"])
    checks = [
        Check("p95 of a confirmation", single["p95_ms"], 50, None, True, " ms"),
        Check(f"{many['files']} confirmations at once", many["seconds"], 2, None, True, " s"),
        Check("p95 until it is read", begun["p95_ms"], 300, None, True, " ms"),
    ]
    return Result({"jobdesk": single, "jobdesk_many": many, "jobdesk_idle": {**begun, **seen}},
                  checks)  # fmt: skip


def stages(b: Bench) -> Result:
    """What a processor reads, cuts and embeds in a second."""
    _clear(b)
    with b.watching() as seen:
        found = _papers(b, "stages", 50 if b.quick else 500)
    checks = [
        Check("a sandbox", found["sandbox_ms"], 150, None, True, " ms"),
        Check("pages of PDF", found["pdf_pages"], 300, None, unit="/s"),
        Check("text cut into chunks", found["chunk_mb"], 1.5, None, unit=" MB/s"),
    ]
    if "embedded" in found:
        checks.append(Check("chunks embedded", found["embedded"], 15, None, unit="/s"))
    return Result({"jobdesk": {**found, **seen}}, checks)


def search(b: Bench) -> Result:
    """Hybrid searches of one owner among 40,000 chunks."""
    _clear(b)
    with b.watching() as seen:
        found = _papers(b, "search", 1000 if b.quick else 40_000)
    figures = {**spread(found["seconds"]), **seen}
    checks = [Check("p95 of a hybrid search", figures["p95_ms"], 50, None, True, " ms")]
    return Result({"jobdesk": figures}, checks)


def relevance(b: Bench) -> Result:
    """Questions about Django's documentation: its titles, and paraphrases without their words."""
    _clear(b)
    count = 50 if b.quick else 500
    with b.watching() as seen:
        found = json.loads(
            _run(b, sys.executable, "-m", "benchmarks.relevance", str(_sdist()), str(count))
        )
    titles, phrases = found["titles"], found["paraphrases"]
    checks = [
        Check("titles: hybrid over vector", _over(titles, "hybrid", "vector"), 1),
        Check("titles: vector over text", _over(titles, "vector", "text"), 1),
        Check("paraphrases: hybrid over vector", _over(phrases, "hybrid", "vector"), 0.95),
    ]
    return Result({"jobdesk": {**found, **seen}}, checks)


def _over(figures: Any, one: str, other: str) -> float:
    return round(float(figures[one]) / max(float(figures[other]), 1e-9), 3)


def _sdist() -> Path:
    """Return Django's source distribution, which is downloaded once."""
    folder = ROOT / "build" / "bench" / "sdist"
    if not (found := list(folder.glob("[Dd]jango-5.2.tar.gz"))):
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder)
        subprocess.run([*map(str, pip), "--no-binary", "django", "django==5.2"], check=True)
        found = list(folder.glob("[Dd]jango-5.2.tar.gz"))
    return found[0]


def pipeline(b: Bench) -> Result:
    """Small documents from confirmation to ready without parsers, beside chains of plain jobs."""
    size = 60 if b.quick else 500
    figures = {}
    for contestant, act in (("chains", "chains"), ("jobdesk", "pipeline")):
        _clear(b)
        processes, _ = b.stage({**_variables(b), "BENCH_UNPARSED": "1"})
        with processes:
            queues = "file-extract,file-chunk,file-embed,batch-completion,default"
            worker = manage("jobs", "worker", "--processes", "1", "--concurrency", "4")
            processes.start(bench.dispatcher(), (*worker, "--queues", queues))
            processes.wait_idle()
            b.wait_quiet()
            with b.watching() as seen:
                made = _papers(b, act, size)
        rate = round(size / made.pop("seconds"), 1)
        figures[contestant] = {"files": size, "rate": rate, **made, **seen}
    ratio = round(figures["jobdesk"]["rate"] / figures["chains"]["rate"], 2)
    checks = [Check("of the rate of three chained plain jobs", ratio, 0.4)]
    return Result(figures, checks, ratio)


def _variables(b: Bench) -> dict[str, str]:
    blobs = Path(b.folder) / "blobs"
    return {"BENCH_FILEPROC": "1", "BLOB_ROOT": str(blobs), "HTTPS": "off"}


def _clear(b: Bench) -> None:
    """The tables of the app are there, and empty like the others."""
    _run(b, *manage("migrate", "--verbosity", "0"))
    b.reset()
    b.sql(f"TRUNCATE {', '.join(TABLES)} CASCADE")
    if b.sql("SELECT to_regclass('fileproc_minilm_384')"):
        b.sql("TRUNCATE fileproc_minilm_384")


def _papers(b: Bench, act: str, size: int) -> Any:
    return json.loads(_run(b, sys.executable, "-m", "benchmarks.papers", act, str(size)))


def _run(b: Bench, *command: str) -> str:
    environment = {**b.environment, **_variables(b)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:4])} failed\n{done.stderr[-2000:]}")
    return done.stdout
