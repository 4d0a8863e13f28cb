"""The counters below the text of a plan: as the channels count, for those who see plans."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from publisher import services
from publisher.models import Account, Member
from tests.publisher.test_plans import made

pytestmark = pytest.mark.django_db
PATH = "/admin/publisher/plan/counters/"


def lines(client: Client, **given: Any) -> list[tuple[str, bool]]:
    answer = client.post(PATH, given)
    assert answer.status_code == 200
    return [(one["text"], one["is_over"]) for one in answer.json()["counters"]]


def test_each_channel_counts_as_it_does(admin_client: Client) -> None:
    assert lines(
        admin_client, caption="{{who}} " + "\U0001f35e" * 140, placeholders="who=Ada",
        channels=["x", "bluesky", "youtube", "wordpress_blog"],
    ) == [
        ("X: 284 of 280, 4 too many", True), ("Bluesky: 144 of 300", False),
        ("YouTube: 564 of 5000", False),
    ]  # fmt: skip
    link = {"caption": "Bread", "link": "https://acme.test/" + "x" * 90}
    assert lines(admin_client, **link, channels=["mastodon", "meta_instagram"]) == [
        ("Mastodon: 30 of 500", False), ("Instagram: 5 of 2200", False),
    ]  # fmt: skip


def test_a_plan_is_counted_on_the_channels_of_its_slots(
    admin_client: Client, accounts: dict[str, Account]
) -> None:
    plan_id = made("meta_facebook", at="2033-01-01T10:00")
    assert lines(admin_client, caption="Bread", plan=str(plan_id)) == [
        ("Facebook page: 5 of 63206", False)
    ]
    assert lines(admin_client, caption="Bread", plan=str(plan_id), channel="x") == [
        ("X: 5 of 280", False)
    ]


@pytest.mark.parametrize(
    "given",
    [
        {}, {"channels": ["myspace"]}, {"plan": "none"}, {"plan": ""},
        {"channels": ["x"], "placeholders": "no equals sign"},
        {"channels": ["x"], "caption": "x" * 100_001},
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_left_out(admin_client: Client, given: dict[str, Any]) -> None:
    assert lines(admin_client, **given) == []


def test_only_those_who_see_the_plan_are_answered(
    client: Client, accounts: dict[str, Account], settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "SCOPE": ["publisher.access.scope"]}
    plan_id = str(made("meta_facebook", at="2033-01-01T10:00"))
    other = services.create_brand("other", "Other")
    user = User.objects.create_user("ann", is_staff=True)
    Member.objects.create(brand=other, tenant=other.tenant, user=user, role="manager")
    client.force_login(user)
    assert client.post(PATH, {"caption": "x", "channels": "x"}).status_code == 403
    user.user_permissions.add(
        Permission.objects.get(codename="view_plan", content_type__app_label="publisher")
    )
    assert lines(client, caption="x", plan=plan_id) == []
    Member.objects.create(
        brand=accounts["x"].brand, tenant="brand:acme", user=user, role="viewer"
    )  # fmt: skip
    assert lines(client, caption="x", plan=plan_id) == [("Facebook page: 1 of 63206", False)]
