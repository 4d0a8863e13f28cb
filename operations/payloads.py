"""The data of each type of operation, and the payload of its job.

The data is stored with the operation; its job carries the agent, the type and a digest of the data.
"""

from __future__ import annotations

import hashlib
import json
import types
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

import jobs
from operations import amounts
from operations.errors import Refused
from operations.table import OPERATIONS

MOST_ITEMS = 500


def _as_decimal(value: object) -> object:
    """Accept numbers of JSON and their text; a float is read as it is written."""
    if isinstance(value, bool):
        return value
    return Decimal(str(value)) if isinstance(value, int | float) else value


def _plain(value: Decimal) -> Decimal:
    """Return it without exponent and without the sign of a zero, as an ERP reads it."""
    return value + 0


def _not_temporary(value: object) -> object:
    if isinstance(value, str) and value.startswith("TEMP-"):
        raise ValueError("is still temporary: the ERP has not given it a number yet")
    return value


_Number = Annotated[
    Decimal,
    BeforeValidator(_as_decimal),
    Field(allow_inf_nan=False, strict=False),
    AfterValidator(_plain),
]
Amount = Annotated[_Number, Field(ge=0, max_digits=14, decimal_places=4)]
Quantity = Annotated[_Number, Field(gt=0, max_digits=12, decimal_places=3)]
Percent = Annotated[_Number, Field(ge=0, le=100, decimal_places=4)]
Text = Annotated[str, Field(max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Id = Annotated[
    str, Field(min_length=1, max_length=80, pattern=r"^[\w./-]+$"), BeforeValidator(_not_temporary)
]


_WORDS = {
    "missing": "is required",
    "extra_forbidden": "is not a field of this type",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "too_long": "may have at most {max_length} entries",
    "string_too_long": "may have at most {max_length} characters",
    "string_pattern_mismatch": "may only have letters, digits and the characters . / _ -",
}
"""Messages for mistakes whose own describe a schema."""


class Data(BaseModel):
    """Base of the data of an operation."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    def as_json(self) -> dict[str, Any]:
        """Return the data as JSON, with amounts as text and without what was not given."""
        found: dict[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return found


class Nothing(Data):
    """A sync needs no data."""


class WarehouseSource(Data):
    """A box of the warehouse that an item is taken from."""

    warehouseItemId: Id
    boxName: Text
    quantity: Quantity


class Item(Data):
    """A line of a new order."""

    articleCode: Id
    productName: Text | None = None
    description: Text | None = None
    quantity: Quantity
    price: Amount
    discount: Percent = Decimal(0)
    warehouseQuantity: Amount | None = None
    warehouseSources: Annotated[list[WarehouseSource], Field(max_length=100)] | None = None

    @model_validator(mode="after")
    def _sources_fit(self) -> Self:
        taken = sum((one.quantity for one in self.warehouseSources or ()), Decimal(0))
        if max(taken, self.warehouseQuantity or Decimal(0)) > self.quantity:
            raise ValueError("takes more from the warehouse than its quantity")
        return self

    @property
    def amount(self) -> Decimal:
        """Return the exact amount of the line."""
        return amounts.line(self.price, self.quantity, self.discount)

    @property
    def is_in_stock(self) -> bool:
        """Whether the whole line is taken from the warehouse."""
        return self.warehouseQuantity is not None and self.warehouseQuantity >= self.quantity


class SubmitOrder(Data):
    """A pending order, to be made in the ERP."""

    pendingOrderId: Id
    customerId: Id
    customerName: Name
    items: Annotated[list[Item], Field(min_length=1, max_length=MOST_ITEMS)]
    discountPercent: Percent = Decimal(0)
    targetTotalWithVAT: Amount | None = None

    @property
    def total(self) -> Decimal:
        """Return the total without VAT."""
        return amounts.total((item.amount for item in self.items), self.discountPercent)


class Customer(Data):
    """A customer's profile."""

    name: Name
    vatNumber: Text | None = None
    pec: Text | None = None
    sdi: Text | None = None
    street: Text | None = None
    postalCode: Text | None = None
    phone: Text | None = None
    mobile: Text | None = None
    email: Text | None = None
    url: Text | None = None
    deliveryMode: Text | None = None
    paymentTerms: Text | None = None
    lineDiscount: Text | None = None
    deliveryStreet: Text | None = None
    deliveryPostalCode: Text | None = None
    postalCodeCity: Text | None = None
    postalCodeCountry: Text | None = None
    deliveryPostalCodeCity: Text | None = None
    deliveryPostalCodeCountry: Text | None = None


class UpdateCustomer(Customer):
    """Changes of a customer, whom the ERP knows by this profile."""

    customerProfile: Id


class OfOrder(Data):
    """An operation on an order of the ERP."""

    orderId: Id


class EditedItem(Data):
    """A line of an order after the change."""

    articleCode: Id
    quantity: Quantity
    unitPrice: Amount
    discountPercent: Percent = Decimal(0)
    lineAmount: Amount
    vatPercent: Percent = Decimal(22)
    vatAmount: Amount | None = None
    lineTotalWithVat: Amount | None = None

    @model_validator(mode="after")
    def _amount_fits(self) -> Self:
        exact = amounts.line(self.unitPrice, self.quantity, self.discountPercent)
        if amounts.rounded(exact) != amounts.rounded(self.lineAmount):
            raise ValueError("has a lineAmount that is not unitPrice * quantity less the discount")
        return self


class EditOrder(OfOrder):
    """New lines of an order; ``version`` is the one that they were made from."""

    modifications: Annotated[list[dict[str, Any]], Field(max_length=MOST_ITEMS)] = Field(
        default_factory=list
    )
    updatedItems: Annotated[list[EditedItem], Field(min_length=1, max_length=MOST_ITEMS)]
    version: Annotated[int, Field(ge=1)] | None = None


class DownloadDdt(OfOrder):
    """A delivery note of an order."""

    ddtNumber: Id


class DownloadInvoice(OfOrder):
    """An invoice of an order."""

    invoiceNumber: Id


DATA: dict[str, type[Data]] = {
    "submit-order": SubmitOrder, "create-customer": Customer, "update-customer": UpdateCustomer,
    "edit-order": EditOrder, "send-to-verona": OfOrder, "delete-order": OfOrder,
    "download-ddt-pdf": DownloadDdt, "download-invoice-pdf": DownloadInvoice,
    "sync-order-articles": OfOrder,
}  # fmt: skip


def schema(type: str) -> type[Data]:
    """Return the schema of the data of a type."""
    return DATA.get(type, Nothing)


def parse(type: str, data: object) -> Data:
    """Validate the data; raise Refused with all problems, none of which contains a value."""
    try:
        return schema(type).model_validate(data)
    except ValidationError as error:
        fields = [
            ("/data" + "".join(f"/{_escaped(part)}" for part in one["loc"]), _words(one))
            for one in error.errors(include_input=False, include_url=False)
        ]
        raise Refused(422, "invalid", f"the data of {type} is invalid", fields) from None


def _escaped(part: int | str) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _words(problem: Any) -> str:
    if problem["type"] in _WORDS:
        return _WORDS[problem["type"]].format(**problem.get("ctx", {}))
    text: str = problem["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def digest(agent: str, type: str, data: Data) -> str:
    """Return a digest of what is asked: the same for the same request, whenever it is made."""
    text = json.dumps([agent, type, data.as_json()], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Task(jobs.Payload):
    """Base of the payloads: what the operation with the job's id must be."""

    agent: str
    type: str
    digest: str


def _payload(type: str) -> type[Task]:
    name = "".join(part.title() for part in type.split("-")) + "Task"
    return types.new_class(
        name, (Task,), {"kind": OPERATIONS[type].kind}, lambda ns: ns.update(__module__=__name__)
    )  # fmt: skip


TASKS: dict[str, Any] = {type: _payload(type) for type in OPERATIONS}


class CheckTask(jobs.Payload, kind="erp.check"):
    """Ask the ERP about a write whose outcome is unknown; the job of the write has this id."""

    operation: str


class LoginTask(jobs.Payload, kind="erp.login-test"):
    """Test the login of an agent."""

    agent: str


class ScheduleTask(jobs.Payload, kind="erp.schedule"):
    """Enqueue the syncs that are due."""
