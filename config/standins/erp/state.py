"""What the stand-in knows, kept in one JSON file."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

CENT = Decimal("0.01")
VAT = Decimal(22)


class Refusal(Exception):
    """A documented refusal."""

    def __init__(self, code: str, status: int = 422) -> None:
        self.code, self.status = code, status
        super().__init__(code)


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(CENT, ROUND_HALF_UP)


def _start() -> dict[str, Any]:
    articles = {f"A-{n:03}": {"productName": f"Article {n}", "vatPercent": "22"} for n in range(40)}
    customers = {
        f"C-{n:04}": {"name": f"Customer {n}", "vatNumber": f"IT{n:011}", "street": f"Via {n}",
                      "postalCode": f"{n:05}", "phone": f"+39 {n}", "email": f"c{n}@customers.test"}
        for n in range(30)
    }  # fmt: skip
    return {
        "passwords": {}, "customers": customers, "articles": articles, "orders": {},
        "ddt": {}, "invoices": {}, "references": {}, "next": 4711,
        "prices": {code: f"{10 + n}.50" for n, code in enumerate(articles)},
    }  # fmt: skip


class State:
    """Agents, customers, orders and documents; one session per agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lock = threading.RLock()
        self.sessions: dict[str, str] = {}
        self.calm = threading.Condition(self.lock)
        self.busy: dict[str, int] = {}
        self.log: list[dict[str, Any]] = []
        self.data = json.loads(path.read_text()) if path.exists() else _start()

    def save(self) -> None:
        """Write the file, whole or not at all."""
        with self.lock:
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.data))
            os.replace(part, self.path)

    def noted(self, agent: str, what: str, step: str, session: str) -> None:
        """Log the begin, the end or the refusal of a call."""
        with self.lock:
            self.log.append({"agent": agent, "what": what, "step": step, "session": session,
                             "at": time.monotonic()})  # fmt: skip

    def login(self, agent: str, password: str) -> str:
        """Open a session, which ends the one before; a call that is under way ends first."""
        with self.lock:
            known = self.data["passwords"].setdefault(agent, "secret")
            if password != known:
                raise Refusal("login_refused", 401)
            made = self.sessions[agent] = uuid.uuid4().hex
            self.calm.wait_for(lambda: not self.busy.get(agent), 60)
            return made

    @contextmanager
    def call(self, agent: str, what: str, session: str) -> Iterator[None]:
        """Accept a call of the current session, and log it; refuse all others."""
        with self.lock:
            if not session or self.sessions.get(agent) != session:
                self.noted(agent, what, "refused", session)
                raise Refusal("session_ended", 401)
            self.busy[agent] = self.busy.get(agent, 0) + 1
            self.noted(agent, what, "begin", session)
        try:
            yield
        finally:
            with self.lock:
                self.busy[agent] -= 1
                self.noted(agent, what, "end", session)
                self.calm.notify_all()

    def find(self, reference: str) -> dict[str, Any]:
        """Search for the external reference of a write."""
        with self.lock:
            found = self.data["references"].get(reference)
            return {"found": found is not None, **({"id": found} if found else {})}

    def write(self, type: str, reference: str, data: dict[str, Any]) -> str:
        """Carry out a write, once per reference."""
        with self.lock:
            if reference in self.data["references"]:
                raise Refusal("reference_used", 409)
            id = str(getattr(self, "_" + type.replace("-", "_"))(data))
            self.data["references"][reference] = id
            made = {"submit-order": "orders", "create-customer": "customers"}.get(type)
            if made:
                self.data[made][id]["reference"] = reference
            self.save()
            return id

    def _number(self) -> int:
        self.data["next"] += 1
        return int(self.data["next"]) - 1

    def _order(self, id: str, *, is_open: bool = True) -> dict[str, Any]:
        found: dict[str, Any] | None = self.data["orders"].get(id)
        if found is None:
            raise Refusal("unknown_order")
        if is_open and found["state"] != "open":
            raise Refusal("order_closed", 409)
        return found

    def _lines(self, items: list[dict[str, Any]], discount: Decimal) -> dict[str, Any]:
        lines, sum_ = [], Decimal(0)
        for item in items:
            if item["articleCode"] not in self.data["articles"]:
                raise Refusal("unknown_article")
            price = Decimal(item.get("unitPrice", item.get("price", "0")))
            off = Decimal(item.get("discountPercent", item.get("discount", "0")))
            amount = price * Decimal(item["quantity"]) * (1 - off / 100)
            sum_ += amount
            lines.append({"articleCode": item["articleCode"], "quantity": item["quantity"],
                          "lineAmount": str(_rounded(amount))})  # fmt: skip
        total = _rounded(sum_ * (1 - discount / 100))
        with_vat = _rounded(total * (1 + VAT / 100))
        return {"lines": lines, "total": str(total), "totalWithVat": str(with_vat)}

    def _submit_order(self, data: dict[str, Any]) -> str:
        if data["customerId"] not in self.data["customers"]:
            raise Refusal("unknown_customer")
        made = self._lines(data["items"], Decimal(data.get("discountPercent", "0")))
        id = str(self._number())
        self.data["orders"][id] = {**made, "customerId": data["customerId"], "state": "open",
                                   "version": 1}  # fmt: skip
        self.data["ddt"][f"D-{id}"] = {"orderId": id, "date": "2030-01-31"}
        self.data["invoices"][f"I-{id}"] = {"orderId": id, "date": "2030-01-31",
                                            "total": made["total"]}  # fmt: skip
        return id

    def _edit_order(self, data: dict[str, Any]) -> str:
        order = self._order(data["orderId"])
        if data.get("version") != order["version"]:
            raise Refusal("conflict", 412)
        order.update(self._lines(data["updatedItems"], Decimal(0)), version=order["version"] + 1)
        return str(data["orderId"])

    def _send_to_verona(self, data: dict[str, Any]) -> str:
        self._order(data["orderId"])["state"] = "inviato_verona"
        return str(data["orderId"])

    def _delete_order(self, data: dict[str, Any]) -> str:
        self._order(data["orderId"])
        del self.data["orders"][data["orderId"]]
        for name in ("ddt", "invoices"):
            self.data[name] = {
                k: v for k, v in self.data[name].items() if v["orderId"] != data["orderId"]
            }
        return str(data["orderId"])

    def _create_customer(self, data: dict[str, Any]) -> str:
        id = f"C-{self._number()}"
        self.data["customers"][id] = dict(data)
        return id

    def _update_customer(self, data: dict[str, Any]) -> str:
        id = data["customerProfile"]
        if id not in self.data["customers"]:
            raise Refusal("unknown_customer")
        self.data["customers"][id].update(
            {name: value for name, value in data.items() if name != "customerProfile"}
        )
        return str(id)

    def read(self, what: str, id: str) -> dict[str, Any] | None:
        """Return an order or a customer, or None."""
        with self.lock:
            found = self.data[what].get(id)
            return None if found is None else {"id": id, **found}

    def document(self, kind: str, order: str, number: str) -> None:
        """Refuse a document that the order does not have."""
        found = self.read({"ddt": "ddt", "invoice": "invoices"}[kind], number)
        if found is None or found["orderId"] != order:
            raise Refusal("unknown_document", 404)

    def rows(self, type: str) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and the rows of an export."""
        with self.lock:
            orders, products = self.data["orders"], self.data["articles"]
            columns, rows = {
                "sync-customers": (
                    ["customerProfile", "name", "vatNumber", "street", "postalCode", "phone",
                     "email", "reference"], self.data["customers"]),
                "sync-orders": (["orderId", "customerId", "state", "total", "totalWithVat",
                                 "version", "reference"], orders),
                "sync-order-states": (["orderId", "state"], orders),
                "sync-ddt": (["ddtNumber", "orderId", "date"], self.data["ddt"]),
                "sync-invoices": (["invoiceNumber", "orderId", "date", "total"],
                                  self.data["invoices"]),
                "sync-products": (["articleCode", "productName", "vatPercent"], products),
                "sync-prices": (["articleCode", "price"],
                                {k: {"price": v} for k, v in self.data["prices"].items()}),
            }[type]  # fmt: skip
            return columns, [
                [key, *(row.get(name, "") for name in columns[1:])] for key, row in rows.items()
            ]
