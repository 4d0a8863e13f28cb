"""The stand-in's pages: forms and results that a browser fills in and reads."""

from __future__ import annotations

import re
from html import escape
from typing import Any
from urllib.parse import parse_qsl

TITLES = {
    "login": "Login", "home": "Home", "form": "New entry", "saved": "Saved", "found": "Found",
    "nothing": "Nothing found", "orders": "Order", "customers": "Customer",
    "download": "Download", "refused": "Refused",
}  # fmt: skip
CUSTOMER = (
    "name", "vatNumber", "pec", "sdi", "street", "postalCode", "phone", "mobile", "email", "url",
    "deliveryMode", "paymentTerms", "lineDiscount", "deliveryStreet", "deliveryPostalCode",
    "postalCodeCity", "postalCodeCountry", "deliveryPostalCodeCity", "deliveryPostalCodeCountry",
)  # fmt: skip
FIELDS = {
    "submit-order": ("customerId", "discountPercent"), "edit-order": ("orderId", "version"),
    "send-to-verona": ("orderId",), "delete-order": ("orderId",),
    "create-customer": CUSTOMER, "update-customer": ("customerProfile", *CUSTOMER),
}  # fmt: skip
LINES = {
    "submit-order": ("items", ("articleCode", "quantity", "price", "discount")),
    "edit-order": ("updatedItems", ("articleCode", "quantity", "unitPrice", "discountPercent")),
}
_LINE = re.compile(r"(\w+)\.(\d+)\.(\w+)\Z")


def page(kind: str, content: str = "", code: str = "", id: str = "") -> bytes:
    """Return a page; what it is about stands in attributes of its main part."""
    about = f'data-page="{kind}" data-code="{escape(code)}"'
    if id:
        about += f' data-id="{escape(id)}"'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{TITLES[kind]}</title>'
        f"</head><body><main {about}><h1>{TITLES[kind]}</h1>{content}</main>"
        "<footer data-end>ERP</footer></body></html>"
    ).encode("utf-8", "replace")


def refused(code: str, words: str) -> bytes:
    """Return the page of a refusal; one of the login shows the form again."""
    said = f'<p data-words class="error">{escape(words)}</p>'
    if code in ("login_refused", "session_ended"):
        return page("login", said + _form(("login", "password")), code)
    return page("refused", said, code)


def login() -> bytes:
    """Return the form of the login."""
    return page("login", _form(("login", "password")))


def form(type: str, lines: int, without: str = "") -> bytes:
    """Return the form of a write; ``without`` leaves out a field, as after a change of the ERP."""
    names = ["reference", *FIELDS[type]]
    if type in LINES:
        table, columns = LINES[type]
        names += [f"{table}.{n}.{column}" for n in range(lines) for column in columns]
    return page("form", _form(name for name in names if name != without))


def download(link: str) -> bytes:
    """Return the page from which a file is downloaded."""
    return page("download", f'<a data-download href="{escape(link)}">Download</a>')


def result(what: str, answer: dict[str, Any]) -> bytes:
    """Return the page of an answer."""
    id = str(answer.get("id", ""))
    if what == "find":
        return page("found" if answer["found"] else "nothing", id=id)
    if what == "operations":
        return page("saved", id=id)
    fields = "".join(
        f'<dt>{escape(name)}</dt><dd data-field="{escape(name)}">{escape(str(value))}</dd>'
        for name, value in answer.items() if name not in ("id", "lines")
    )  # fmt: skip
    rows = "".join(
        "<tr data-line>" + "".join(
            f'<td data-field="{escape(name)}">{escape(str(value))}</td>'
            for name, value in line.items()
        ) + "</tr>"
        for line in answer.get("lines", [])
    )  # fmt: skip
    return page(what, f"<dl>{fields}</dl><table><tbody>{rows}</tbody></table>", id=id)


def _form(names: Any) -> str:
    controls = "".join(
        f'<p><label>{escape(name)} <input name="{escape(name)}"'
        f"{' type=password autocomplete=off' if name == 'password' else ''}></label></p>"
        for name in names
    )
    return f'<form method="post">{controls}<button type="submit">Save</button></form>'


def parsed(type: str, content: bytes) -> dict[str, Any]:
    """Return the data of a form that was sent."""
    given = dict(parse_qsl(content.decode()))
    if type == "login":
        return given
    lines: dict[int, dict[str, str]] = {}
    data: dict[str, Any] = {}
    for name, value in given.items():
        if found := _LINE.match(name):
            lines.setdefault(int(found[2]), {})[found[3]] = value
        elif name != "reference":
            data[name] = int(value) if name == "version" else value
    if type in LINES:
        data[LINES[type][0]] = [lines[number] for number in sorted(lines)]
    return {"reference": given.get("reference", ""), "data": data}
