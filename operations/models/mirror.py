"""The mirror: rows of the ERP as the last sync or write has left them."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.fields import EncryptedJSONField
from operations.models.agent import Agent


class Mirror(models.Model):
    """Base of the rows: ``values`` holds the ERP's columns, encrypted."""

    objects: ClassVar[models.Manager[Any]] = models.Manager()
    columns: ClassVar[tuple[str, ...]]
    """Columns of its export, the key first."""
    numbers: ClassVar[tuple[str, ...]] = ()
    """Columns that must be decimals."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="+", verbose_name=_("agent"))
    key = models.CharField(_("key"), max_length=120)
    values: Any = EncryptedJSONField(tenant_field="agent")
    row_hash = models.CharField(max_length=64)
    """A keyed hash of the values."""
    changed_at = models.DateTimeField(_("changed"), auto_now=True)
    deleted_at = models.DateTimeField(_("deleted"), null=True, blank=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.key


def _once(name: str) -> list[models.BaseConstraint]:
    return [models.UniqueConstraint(fields=["agent", "key"], name=f"operations_{name}_once")]


class Customer(Mirror):
    """A customer."""

    columns = ("customerProfile", "name", "vatNumber", "street", "postalCode", "phone", "email")

    class Meta(Mirror.Meta):
        verbose_name = _("customer")
        verbose_name_plural = _("customers")
        constraints = _once("customer")


class Order(Mirror):
    """An order."""

    columns = ("orderId", "customerId", "state", "total", "totalWithVat", "version")
    numbers = ("total", "totalWithVat")

    class Meta(Mirror.Meta):
        verbose_name = _("order")
        verbose_name_plural = _("orders")
        constraints = _once("order")


class OrderArticle(Mirror):
    """A line of an order; its key is the order's and the number of the line."""

    class Meta(Mirror.Meta):
        verbose_name = _("line of an order")
        verbose_name_plural = _("lines of orders")
        constraints = _once("orderarticle")


class OrderState(Mirror):
    """The state of an order."""

    columns = ("orderId", "state")

    class Meta(Mirror.Meta):
        verbose_name = _("state of an order")
        verbose_name_plural = _("states of orders")
        constraints = _once("orderstate")


class Ddt(Mirror):
    """A delivery note."""

    columns = ("ddtNumber", "orderId", "date")

    class Meta(Mirror.Meta):
        verbose_name = _("delivery note")
        verbose_name_plural = _("delivery notes")
        constraints = _once("ddt")


class Invoice(Mirror):
    """An invoice."""

    columns = ("invoiceNumber", "orderId", "date", "total")
    numbers = ("total",)

    class Meta(Mirror.Meta):
        verbose_name = _("invoice")
        verbose_name_plural = _("invoices")
        constraints = _once("invoice")


class Product(Mirror):
    """A product."""

    columns = ("articleCode", "productName", "vatPercent")
    numbers = ("vatPercent",)

    class Meta(Mirror.Meta):
        verbose_name = _("product")
        verbose_name_plural = _("products")
        constraints = _once("product")


class Price(Mirror):
    """The price of a product."""

    columns = ("articleCode", "price")
    numbers = ("price",)

    class Meta(Mirror.Meta):
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        constraints = _once("price")


MIRROR: dict[str, type[Mirror]] = {
    "sync-order-states": OrderState, "sync-customers": Customer, "sync-orders": Order,
    "sync-ddt": Ddt, "sync-invoices": Invoice, "sync-products": Product, "sync-prices": Price,
}  # fmt: skip
"""What each sync keeps up to date."""
