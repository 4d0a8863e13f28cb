"""A brand whose accounts publish at the stand-in, for ``make run`` while nothing is configured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from config.standins.publisher.server import Standin

SLUG, NAME, ZONE = "bakery", "Bakery", "Europe/Rome"
PLACES = {
    "meta_facebook": ("graph", "bakery-page"), "meta_instagram": ("graph", "bakery-instagram"),
    "meta_instagram_stories": ("graph", "bakery-instagram"),
    "google_business": ("google", "accounts/1/locations/1"), "wordpress_blog": ("blog", "editor"),
    "tiktok": ("tiktok", "bakery-tiktok"), "youtube": ("youtube", "bakery-youtube"),
    "linkedin": ("linkedin", "urn:li:organization:1"), "x": ("x", "1"),
    "mastodon": ("mastodon", "bakery"), "bluesky": ("bluesky", "bakery.test"),
}  # fmt: skip
"""The service of the stand-in, and the id of the account there."""
CLIENTS = (
    "META_APP_ID", "GOOGLE_CLIENT_ID", "TIKTOK_CLIENT_KEY", "LINKEDIN_CLIENT_ID", "X_CLIENT_ID",
)  # fmt: skip


def is_needed() -> bool:
    """Return whether the publisher is installed, DEBUG is on and no provider is configured."""
    from django.apps import apps
    from django.conf import settings

    return (
        settings.DEBUG
        and apps.is_installed("publisher")
        and not any(settings.PUBLISHER.get(name) for name in CLIENTS)
    )


@contextmanager
def serving(port: int) -> Iterator[Standin]:
    """Run the stand-in; what follows may call it, and it may fetch assets from ``port``."""
    standin = Standin()
    standin.start()
    allowed = filter(None, [os.environ.get("HTTP_ALLOW"), "127.0.0.0/8"])
    os.environ["HTTP_ALLOW"] = ",".join(allowed)
    os.environ.setdefault("PUBLIC_URL", f"http://127.0.0.1:{port}")
    try:
        yield standin
    finally:
        standin.stop()


def offer(url: str) -> int:
    """Give the brand an account on every channel; return how many are new.

    Those of an earlier start are kept as they are, and find the stand-in at its new address.
    """
    from publisher import services
    from publisher.models import Account, Brand, Channel

    brand = Brand.objects.filter(slug=SLUG).first() or services.create_brand(SLUG, NAME, ZONE)
    made = 0
    for channel, (service, place) in PLACES.items():
        _, is_new = Account.objects.update_or_create(
            brand=brand, channel=channel, remote_account=place,
            defaults={"base_url": f"{url}/{service}"},
            create_defaults={
                "base_url": f"{url}/{service}", "tenant": brand.tenant,
                **services.credentials(channel, "stand-in", ""),
                "name": f"{NAME} on {Channel(channel).label}",
            },
        )  # fmt: skip
        made += is_new
    return made
