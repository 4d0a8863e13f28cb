"""An index of PostgreSQL: a table of vectors for each model, made where pgvector is installed.

Django's models do not know them: a project without pgvector has no such table.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError, connections, transaction

import jobs
from fileproc import embedding, wanted
from fileproc.embedding import MINILM, Model
from fileproc.indexing import Rows
from fileproc.models import Content, File

log = logging.getLogger("fileproc")
TABLE = embedding.named(MINILM).table
LEAST_VERSION = (0, 8)
_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    chunk_id bigint PRIMARY KEY,
    owner text NOT NULL,
    vector halfvec({dimensions}) NOT NULL
);
CREATE INDEX IF NOT EXISTS {table}_near ON {table} USING hnsw (vector halfvec_cosine_ops);
"""
_known: dict[tuple[str, str], bool] = {}
ITERATIVE = "SET LOCAL hnsw.iterative_scan = relaxed_order"
"""The index goes on until there are enough chunks that pass the filters."""


def place() -> str:
    """Return where the index is: here, as for all files before there was another one."""
    return ""


def exists(model: Model | None = None) -> bool:
    """Return whether a model, or else MiniLM, has a table of vectors; asked until it has."""
    table = TABLE if model is None else model.table
    name = str(connections["default"].settings_dict["NAME"]), table
    if not _known.get(name):
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [table])
            _known[name] = bool(cursor.fetchone()[0])
    return _known[name]


def after_migrate(using: str, **_: Any) -> None:
    """Make the tables where the server has pgvector; drop them with the app's own tables."""
    if using != "default":
        return
    if _has_app_tables():
        create()
    else:
        with connections["default"].cursor() as cursor:
            for table in _tables():
                cursor.execute(f"DROP TABLE IF EXISTS {table}")


def _has_app_tables() -> bool:
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT to_regclass('fileproc_chunk') IS NOT NULL")
        return bool(cursor.fetchone()[0])


def _tables() -> list[str]:
    """Return the tables of all models that were ever in use."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            r"SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND "
            r"relname ~ '^fileproc_(minilm|vectors)_\d' AND pg_table_is_visible(oid)"
        )
        return [name for (name,) in cursor.fetchall()]


def create() -> str:
    """Make the tables of MiniLM and the model in use; return why that is not possible, if so."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
        found = cursor.fetchone()
    if found is None:
        return "this PostgreSQL has no pgvector"
    if tuple(map(int, found[0].split(".")[:2])) < LEAST_VERSION:
        return f"pgvector {found[0]} is older than 0.8"
    try:
        with transaction.atomic(), connections["default"].cursor() as cursor:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
            for model in {embedding.named(MINILM), embedding.current() or embedding.named(MINILM)}:
                cursor.execute(_CREATE.format(table=model.table, dimensions=model.dimensions))
    except DatabaseError as error:
        reason = str(error).splitlines()[0]
        log.warning("no table of vectors: %s", reason)
        return reason
    return ""


def send(ctx: jobs.Context, file: File, content: Content, model: Model, rows: Rows) -> str:
    """Return that nothing is stored outside of the database."""
    return ""


def write(model: Model, owner: str, rows: Rows) -> None:
    """Store the vectors of chunks, in the caller's transaction.

    It is one statement: of a client that freezes between several of a pipeline, PostgreSQL would
    keep the transaction open, as it is not idle.
    """
    with connections["default"].cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {model.table} (chunk_id, owner, vector) "  # noqa: S608
            "SELECT id, %s, vector::halfvec "
            "FROM unnest(%s::bigint[], %s::text[]) AS one(id, vector) "
            "ON CONFLICT (chunk_id) DO UPDATE SET vector = excluded.vector",
            [owner, [chunk_id for chunk_id, _, _ in rows], [literal(v) for _, _, v in rows]],
        )


def near(model: Model, vector: bytes, asked: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Return the owner's chunks that are nearest to a vector, with their similarity."""
    given = {**asked, "vector": literal(vector)}
    return wanted.rows(by_vector(model.table), given, ITERATIVE)


def by_vector(table: str) -> str:
    """Return the statement that finds the chunks of a table that are nearest to a vector."""
    return f"""
    SELECT v.chunk_id, 1 - (v.vector <=> %(vector)s::halfvec) AS score
    FROM {table} v JOIN fileproc_chunk c ON c.id = v.chunk_id
    WHERE v.owner = %(owner)s AND EXISTS ({wanted.SEEN})
    ORDER BY v.vector <=> %(vector)s::halfvec LIMIT %(candidates)s
    """  # noqa: S608 - nothing of a request is in it


def delete_of(content_id: int) -> None:
    """Delete the vectors of a content's chunks, in the caller's transaction."""
    with connections["default"].cursor() as cursor:
        for table in _tables():
            cursor.execute(
                f"DELETE FROM {table} WHERE chunk_id IN "  # noqa: S608
                "(SELECT id FROM fileproc_chunk WHERE content_id = %s)",
                [content_id],
            )


def literal(vector: bytes) -> str:
    """Return the vector as PostgreSQL reads it."""
    numbers = struct.unpack(f"<{len(vector) // 2}e", vector)
    return f"[{','.join(f'{number:.6g}' for number in numbers)}]"
