"""Reading the project's source as data: who imports what, and who writes a job's state."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOMAIN_APPS = frozenset({"publisher", "emailgw", "fileproc", "trading", "operations"})
OURS = frozenset({"jobs", "config", *DOMAIN_APPS})
PUBLIC_MODULES = (
    *("acts", "admin", "api", "backoff", "blobs", "effects", "errors", "events"),
    *("fields", "flow", "http", "limits", "machines", "metrics", "models", "problems"),
    *("realtime", "retention", "sandbox", "statements", "testing", "types", "verbs", "webhooks"),
)
"""What an app may import besides the names of the root. Nothing below them is public."""
PROJECT_MODULES = (
    *("asgi", "bodies", "cache", "client", "demo", "logs", "middleware", "newkey", "router"),
    "signals",
)
"""What the project around the apps names in its settings and entry points. Apps may not."""
VOCABULARY = frozenset(
    {
        "states",
        "errors",
        "payloads",
        "outcomes",
        "registry",
        "retention",
        "backoff",
        "conf",
        "context",
        "endings",
        "jsontext",
        "names",
        "ids",
        "fingerprints",
        "effects",
        "events",
        "clockwork",
        "timetable",
        "scopes",
        "windows",
        "addresses",
    }
)


@dataclass(frozen=True)
class Import:
    """One imported name, where it stands, and whether it is imported with its module."""

    module: str
    name: str
    at: str
    with_module: bool

    @property
    def path(self) -> str:
        """The dotted path of what is imported."""
        return f"{self.module}.{self.name}" if self.name else self.module


def modules(root: Path, *packages: str) -> Iterator[tuple[str, Path]]:
    """Every module of the packages that exist below the root, with its dotted name."""
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path


def imports(name: str, path: Path, *, for_types: bool = False) -> Iterator[Import]:
    """Everything that the module imports, also inside functions; what only types need if asked."""
    tree = ast.parse(path.read_text())
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    yield from _walk(tree, package, str(path), True, for_types)


def _walk(
    node: ast.AST, package: str, path: str, with_module: bool, for_types: bool
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        at = f"{path}:{getattr(child, 'lineno', 0)}"
        is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if isinstance(child, ast.If) and is_typing and not for_types:
            for other in child.orelse:
                yield from _walk(other, package, path, with_module, for_types)
        elif isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, "", at, with_module)
        elif isinstance(child, ast.ImportFrom):
            base = _base(child, package)
            for alias in child.names:
                yield Import(base, alias.name, at, with_module)
        elif isinstance(child, ast.Call) and _is_dynamic(child):
            yield Import(str(ast.literal_eval(child.args[0])), "", at, with_module)
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, package, path, with_module and not inside, for_types)


def _base(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def _is_dynamic(call: ast.Call) -> bool:
    function = ast.unparse(call.func).rpartition(".")[2]
    constant = bool(call.args) and isinstance(call.args[0], ast.Constant)
    return function in ("import_module", "__import__") and constant


# ---- The rules: each answers the violations that it finds below a root.


def wrong_arrows(root: Path, public_names: frozenset[str]) -> list[str]:
    """Imports against ``config -> domain apps -> jobs``, or into the inside of jobs."""
    found = []
    for name, path in modules(root, *sorted(OURS)):
        app = name.partition(".")[0]
        for used in imports(name, path, for_types=app in DOMAIN_APPS):
            other = used.path.partition(".")[0]
            if other in OURS and other != app and not _may(app, used, public_names):
                found.append(f"{used.at}: {app} may not import {used.path}")
    return found


def _may(app: str, used: Import, public_names: frozenset[str]) -> bool:
    if app == "config":
        return True
    if app == "jobs" or used.path.partition(".")[0] != "jobs":
        return False
    first = used.path.split(".")[1:2]
    if not first or first[0] in PUBLIC_MODULES:
        return True
    return first[0] in public_names and used.path.count(".") == 1


def foreign_imports(root: Path, banned: frozenset[str], allowed: frozenset[str]) -> list[str]:
    """Imports of the banned packages anywhere but in the allowed modules."""
    return [
        f"{used.at}: {used.path}"
        for name, path in modules(root, *sorted(OURS))
        if name not in allowed
        for used in imports(name, path)
        if used.path.partition(".")[0] in banned
    ]


WAYS_OUT = (
    "httpx",
    "httpcore",
    "requests",
    "urllib3",
    "urllib.request",
    "http.client",
    "aiohttp",
    "httplib2",
    "ftplib",
    "websockets",
)
"""Modules that call other hosts."""
_DIALS = re.compile(r"\b(create_connection|open_connection|connect_ex)\(|\bsocket\.socket\(")


def ways_out(root: Path, allowed: frozenset[str]) -> list[str]:
    """Calls to other hosts that go past the one safe transport: by a library, or by a socket."""
    found = []
    for name, path in modules(root, *sorted(OURS)):
        if name in allowed or name == "jobs.http" or name.startswith("jobs.http."):
            continue
        for used in imports(name, path):
            if any(f"{used.path}.".startswith(f"{one}.") for one in WAYS_OUT):
                found.append(f"{used.at}: {used.path}")
        if name.startswith("config.embedded."):  # speaks with its servers over unix sockets
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if _DIALS.search(line):
                found.append(f"{path}:{number}: {line.strip()}")
    return found


_UNSAFE_CALLS = re.compile(r"(?<![\w.])(eval|exec)\(|\b(pickle|marshal|shelve|dill)\.loads?\(")


def unsafe_calls(root: Path) -> list[str]:
    """Calls that would turn data into code."""
    return [
        f"{path}:{number}: {line.strip()}"
        for _, path in modules(root, *sorted(OURS))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _UNSAFE_CALLS.search(line)
    ]


_HEAVY = ("django.db", "jobs.models", "jobs.engine", "jobs.operate", "jobs.api", "jobs.admin")


def impure_vocabulary(root: Path) -> list[str]:
    """Imports of the ORM or the engine by the words that everything else is built of."""
    found = []
    for word in sorted(VOCABULARY):
        path = root / "jobs" / f"{word}.py"
        for used in imports(f"jobs.{word}", path):
            if used.with_module and used.path.startswith(_HEAVY):
                found.append(f"{used.at}: {used.path}")
    return found


def hidden_names(root: Path, public_names: frozenset[str]) -> list[str]:
    """Submodules of jobs that would replace a public name once they are imported."""
    submodules = {path.stem for path in (root / "jobs").glob("*.py")}
    submodules |= {path.parent.name for path in (root / "jobs").glob("*/__init__.py")}
    return sorted(submodules & public_names)


_SQL = re.compile(
    r"UPDATE\s+jobs_job\b.*?\bSET\b(?:(?!\bWHERE\b|\bFROM\s+\w+\s+WHERE\b).)*?[\s,]state\s*=",
    re.DOTALL | re.IGNORECASE,
)


MOVERS = frozenset({"jobs.operate.cancel", "jobs.operate.retry"})
"""The moves that only a person makes."""


def state_writes(root: Path) -> list[str]:
    """Writes to a job's state outside of their home: the engine, and what people may ask for."""
    found = []
    for name, path in modules(root, *sorted(OURS)):
        if name in MOVERS or name.startswith(("jobs.engine", "jobs.migrations")):
            continue
        text = path.read_text()
        found += [f"{path}: {hit[0][:60]}" for hit in _SQL.finditer(text)]
        for node in ast.walk(ast.parse(text)):
            if _writes_state(node):
                found.append(f"{path}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)[:60]}")
    return found


def _writes_state(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(t, ast.Attribute) and t.attr == "state" for t in targets)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        source = ast.unparse(node)
        names_state = any(keyword.arg == "state" for keyword in node.keywords)
        writes = node.func.attr in ("update", "update_or_create", "bulk_update", "setattr")
        return writes and names_state and "DeadLetter" not in source
    return False


def permission_literals(root: Path, known: frozenset[str]) -> list[str]:
    """Names of permissions outside of ``operate`` and the apps' verb modules, as texts."""
    found = []
    for name, path in modules(root, *sorted(OURS)):
        parts = name.split(".")
        is_home = name.startswith("jobs.operate") or parts[1:2] == ["verbs"]
        if is_home or "migrations" in parts or name == "jobs":
            continue
        tree = ast.parse(path.read_text())
        exported = {
            id(one) for node in ast.walk(tree) if _is_export(node) for one in ast.walk(node)
        }
        found += [
            f"{path}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in known and id(node) not in exported
        ]
    return found


def _is_export(node: ast.AST) -> bool:
    """Names of a module's own: those that it exports, and those that it imports when used."""
    exports = ("__all__", "__getattr__")
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in exports
