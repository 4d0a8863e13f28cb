"""Agents and requests for tests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from operations.models import Agent, Operation
from operations.services import accept


def agent(key: str = "ada", **fields: Any) -> Agent:
    """An agent whose login is its key."""
    return Agent.objects.create(**{"key": key, "erp_login": key, "password": "secret", **fields})


def order(pending: str = "P-1", **fields: Any) -> dict[str, Any]:
    """An order that nobody could object to."""
    return {
        "pendingOrderId": pending,
        "customerId": "C-0001",
        "customerName": "Rossi",
        "items": [
            {"articleCode": "A-001", "quantity": 3, "price": "19.99", "discount": 10},
            {"articleCode": "A-002", "quantity": "1.5", "price": "4.5001"},
        ],
        "discountPercent": 5,
        **fields,
    }


def ask(type: str, data: object, agent: str = "ada", **options: Any) -> Operation:
    """An accepted operation."""
    return fetch(accept.enqueue(type, data, by="tests", agent=agent, **options).id)


def fetch(id: UUID) -> Operation:
    return Operation.objects.get(pk=id)


def steps(row: Operation) -> list[str]:
    """The phases that it went through."""
    return list(row.steps.order_by("id").values_list("phase", flat=True))
