"""The rows: batches, files and the runs of their stages; contents, chunks and cached vectors."""

from fileproc.models.batch import Batch, BatchStatus, Quota
from fileproc.models.content import CachedVector, Chunk, Content
from fileproc.models.file import File, FileStatus, Stage, StageRun
from fileproc.models.folder import Folder

__all__ = [
    "Batch",
    "BatchStatus",
    "CachedVector",
    "Chunk",
    "Content",
    "File",
    "FileStatus",
    "Folder",
    "Quota",
    "Stage",
    "StageRun",
]
