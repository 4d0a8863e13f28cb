"""What the vendors' own SDKs say a request may have; ``vendors.json`` keeps it.

Written by ``python -m tests.publisher.vendors FACEBOOK_BUSINESS.whl GOOGLE_API_PYTHON_CLIENT.whl``,
which reads the names and types of the fields, and nothing else, out of the two distributions.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

PATH = Path(__file__).with_name("vendors.json")
EDGES = {
    "feed": ("page", "create_feed"), "photos": ("page", "create_photo"),
    "videos": ("page", "create_video"), "media": ("iguser", "create_media"),
    "media_publish": ("iguser", "create_media_publish"),
    "comments": ("igmedia", "create_comment"),
    "content_publishing_limit": ("iguser", "get_content_publishing_limit"),
}  # fmt: skip
"""The calls of Meta that are made, with the class and the method that make them in its SDK."""
RESOURCES = ("Video", "VideoSnippet", "VideoStatus")


def read() -> dict[str, Any]:
    """Return the tables."""
    found: dict[str, Any] = json.loads(PATH.read_text())
    return found


def meta(wheel: Path) -> dict[str, Any]:
    """Return the types of the parameters of each edge."""
    found = {}
    with ZipFile(wheel) as archive:
        for edge, (module, method) in EDGES.items():
            source = archive.read(f"facebook_business/adobjects/{module}.py").decode()
            [function] = [
                node
                for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.FunctionDef) and node.name == method
            ]
            found[edge] = next(_types(node) for node in ast.walk(function) if _is_types(node))
    return found


def _is_types(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "param_types"


def _types(node: Any) -> dict[str, str]:
    names = zip(node.value.keys, node.value.values, strict=True)
    return {
        str(key.value): str(value.value) if isinstance(value, ast.Constant) else "enum"
        for key, value in names
    }


def youtube(wheel: Path) -> dict[str, Any]:
    """Return the fields of a video, with the values of enums, and what its upload is asked with."""
    with ZipFile(wheel) as archive:
        path = "googleapiclient/discovery_cache/documents/youtube.v3.json"
        document = json.loads(archive.read(path))
    insert = document["resources"]["videos"]["methods"]["insert"]
    fields = {
        name: {
            field: about.get("enum") or about.get("$ref") or about["type"]
            for field, about in document["schemas"][name]["properties"].items()
        }
        for name in RESOURCES
    }
    return {
        "fields": fields, "parameters": sorted([*insert["parameters"], *document["parameters"]]),
        "path": insert["mediaUpload"]["protocols"]["resumable"]["path"],
    }  # fmt: skip


def version(wheel: Path) -> str:
    """Return the name and the version of a distribution."""
    [found] = re.findall(r"^([^-]+-[^-]+)-", wheel.name)
    return str(found)


if __name__ == "__main__":
    of_meta, of_google = map(Path, sys.argv[1:])
    tables = {
        "versions": [version(of_meta), version(of_google)], "meta": meta(of_meta),
        "youtube": youtube(of_google),
    }  # fmt: skip
    PATH.write_text(json.dumps(tables, indent=1, sort_keys=True) + "\n")
