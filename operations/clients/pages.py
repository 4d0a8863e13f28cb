"""The pages of the ERP: what is filled in and what is read. A page that changes is changed here."""

from __future__ import annotations

from typing import Any

from jobs import http

READ = """() => {
  const main = document.querySelector("main[data-page]");
  if (!main || !document.querySelector("footer[data-end]")) return null;
  const cells = (from, tag) => Object.fromEntries(
    [...from.querySelectorAll(`${tag}[data-field]`)].map(
      (one) => [one.dataset.field, one.textContent]));
  const link = main.querySelector("a[data-download]");
  const words = main.querySelector("[data-words]");
  return {
    page: main.dataset.page, code: main.dataset.code || "", id: main.dataset.id,
    words: words ? words.textContent : "", link: link ? link.getAttribute("href") : "",
    fields: cells(main, "dd"),
    lines: [...main.querySelectorAll("tr[data-line]")].map((row) => cells(row, "td")),
  };
}"""
"""Reads a page that has arrived whole; null otherwise."""

FILL = """(values) => {
  const form = document.querySelector("main form");
  const controls = form ? form.elements : {};
  const missing = Object.keys(values).filter((name) => !controls[name]);
  if (missing.length) return missing;
  for (const [name, value] of Object.entries(values)) {
    controls[name].value = value;
    controls[name].dispatchEvent(new Event("input", {bubbles: true}));
    controls[name].dispatchEvent(new Event("change", {bubbles: true}));
  }
  return [];
}"""
"""Fills in a form, and returns the names that it does not have."""

SEND = """() => { document.querySelector("main form [type=submit]").click(); }"""

FETCH = """async ([url, name, limit]) => {
  const answer = await fetch(url, {redirect: "error"});
  if (answer.status !== 200) {
    let said = {};
    try { said = await answer.json(); } catch (error) { /* it is no JSON */ }
    return {status: answer.status, code: String(said.code || ""),
            words: String(said.message || ""), tooLarge: false};
  }
  const reader = answer.body.getReader();
  for (let total = 0; ; ) {
    const {done, value} = await reader.read();
    if (done) return {status: 200, code: "", words: "", tooLarge: false};
    total += value.length;
    if (total > limit) {
      await reader.cancel();
      return {status: 200, code: "", words: "", tooLarge: true};
    }
    for (let at = 0; at < value.length; at += 32768) {
      const part = value.subarray(at, at + 32768);
      await window[name](btoa(String.fromCharCode(...part)));
    }
  }
}"""
"""Downloads with the session of the page, and passes the pieces on."""

LINES = {
    "submit-order": ("items", ("articleCode", "quantity", "price", "discount")),
    "edit-order": ("updatedItems", ("articleCode", "quantity", "unitPrice", "discountPercent")),
}
"""The table of a form: what the data calls it, and its columns."""
FIELDS = {
    "submit-order": ("customerId", "discountPercent"),
    "edit-order": ("orderId", "version"),
    "send-to-verona": ("orderId",),
    "delete-order": ("orderId",),
}
"""The fields of a form; a customer has all fields of its data."""


class NotSent(http.Unreachable):
    """A form was not sent: the ERP has heard nothing of the write."""

    sent = False


def form_of(type: str, data: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the address of the form of a write, and what is to be filled in."""
    given = {name: value for name, value in data.items() if value is not None}
    values = {name: str(given[name]) for name in FIELDS.get(type, given) if name in given}
    if type not in LINES:
        return type, values
    name, columns = LINES[type]
    for number, line in enumerate(data[name]):
        for column in columns:
            if line.get(column) is not None:
                values[f"{name}.{number}.{column}"] = str(line[column])
    return f"{type}?lines={len(data[name])}", values


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """Return the order or the customer that a page shows."""
    made: dict[str, Any] = {**found["fields"], "id": found["id"]}
    if found["page"] == "orders":
        made["lines"] = found["lines"]
        if made.get("version", "").isdecimal():
            made["version"] = int(made["version"])
    return made
