"""One handler whose payload needs a key."""

import jobs


class Order(jobs.Payload, kind="shop.order"):
    card: jobs.Sensitive[str]


@jobs.handler(Order)
def order(ctx: jobs.Context, payload: Order) -> None:
    """Does nothing."""
