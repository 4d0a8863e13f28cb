"""HTML without scripts, styles and navigation."""

from __future__ import annotations

from typing import BinaryIO

from lxml import etree

from fileproc.parsers.plain import decode
from fileproc.parsers.text import Damaged, Text

_HIDDEN = {"script", "style", "nav", "aside", "footer", "noscript", "template", "svg", "head"}
_BLOCKS = {
    "p", "div", "section", "article", "li", "tr", "table", "ul", "ol", "br", "pre", "blockquote",
    "h1", "h2", "h3", "h4", "h5", "h6", "dt", "dd", "header", "main", "body",
}  # fmt: skip


def read(file: BinaryIO, text: Text) -> None:
    parser = etree.HTMLParser(no_network=True, huge_tree=False, remove_comments=True)
    source = decode(file.read())
    if source.lstrip().startswith("<?xml"):
        source = source.partition("?>")[2]
    try:
        root = etree.fromstring(source, parser)
    except (etree.XMLSyntaxError, ValueError):
        raise Damaged from None
    if root is None:
        return
    hidden = 0
    for event, node in etree.iterwalk(root, events=("start", "end")):
        name = node.tag if isinstance(node.tag, str) else ""
        if event == "start":
            hidden += name in _HIDDEN
            if not hidden:
                _open(text, node, name)
        else:
            hidden -= name in _HIDDEN
            if not hidden:
                if name in _BLOCKS:
                    text.add("\n\n" if name in ("p", "h1", "h2", "h3", "h4", "h5", "h6") else "\n")
                elif name in ("td", "th"):
                    text.add("\t")
                text.add(_words(node.tail))


def _open(text: Text, node: etree._Element, name: str) -> None:
    if len(name) == 2 and name[0] == "h" and name[1] in "123456":
        text.heading(int(name[1]), "".join(str(words) for words in node.itertext())[:500])
    text.add(_words(node.text))


def _words(words: str | None) -> str:
    if not words:
        return ""
    joined = " ".join(words.split())
    if not joined:
        return " " if words else ""
    return f"{' ' if words[0].isspace() else ''}{joined}{' ' if words[-1].isspace() else ''}"
