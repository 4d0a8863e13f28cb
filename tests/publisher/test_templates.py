"""Templates and their placeholders: from a text to the posts of a plan."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from config.standins.publisher import Standin
from jobs.testing import freeze_clock, run_jobs
from publisher import plan_verbs, plans, services, template_verbs
from publisher.content import Content
from publisher.errors import Refused
from publisher.models import Account, Asset, Plan, Template
from tests.api.conftest import Caller
from tests.publisher.test_plans import AT

pytestmark = pytest.mark.django_db
TEMPLATES = "/publisher/templates"
TEXT = {
    "caption": "{{day}}: {{ bread }} from seven", "title": "News of {{day}}",
    "ig_first_comment": "Order {{bread}}",
}  # fmt: skip


@pytest.fixture
def caller(accounts: dict[str, Account]) -> Caller:
    return Caller(tenants=["brand:acme"])


def test_a_plan_begins_from_a_template_and_fills_it_everywhere(
    caller: Caller, accounts: dict[str, Account], standin: Standin
) -> None:
    body = {"brand": "acme", "name": "News", "content": TEXT}
    template = caller("POST", TEMPLATES, body)
    assert template.status_code == 201, template.content
    assert template.data["placeholders"] == ["day", "bread"]
    assert caller("GET", TEMPLATES).data["data"] == [template.data]
    plan = {
        "brand": "acme", "title": "News", "template": template.data["id"],
        "content": {"placeholders": {"day": "Monday", "bread": "rye"}},
        "slots": [{"channel": "wordpress_blog", "at": AT}],
    }  # fmt: skip
    made = caller("POST", "/publisher/plans", plan)
    assert made.status_code == 201, made.content
    plan_id = UUID(made.data["id"])
    plan_verbs.submit(plan_id, by="ada")
    plan_verbs.approve(plan_id, by="bob")
    plan_verbs.schedule(plan_id, by="ada", at_once=True)
    with freeze_clock() as clock:
        clock.tick(3)
        run_jobs(["publisher"])
    [post] = standin.posts["blog"]
    assert (post["title"], post["content"]) == ("News of Monday", "Monday: rye from seven")


def test_an_unfilled_placeholder_is_named_wherever_it_is(caller: Caller) -> None:
    content = {**TEXT, "placeholders": {"bread": "rye"}}
    body = {"brand": "acme", "content": content, "channels": ["wordpress_blog"]}
    [seen] = caller("POST", "/publisher/preflight", body).data["channels"]
    assert seen["blocked"]
    pointers = [(one["pointer"], one["message"]) for one in seen["checks"]]
    for field in ("caption", "title"):
        expected = (f"/content/{field}", "WordPress blog: {{day}} has no value")
        assert expected in pointers


def test_a_first_comment_is_filled(accounts: dict[str, Account]) -> None:
    given = {**TEXT, "placeholders": {"day": "Monday", "bread": "rye"}}
    media = [{"url": "https://media.acme.test/a.jpg"}]
    post = Content.model_validate({**given, "title": "", "media": media})
    stored = services.enqueue(accounts["meta_instagram"], post).row.content
    assert stored["ig_first_comment"] == "Order rye"
    late = Content.model_validate({"caption": "x", "ig_first_comment": "{{y}}", "media": media})
    with pytest.raises(Refused, match="has no value"):
        services.enqueue(accounts["meta_instagram"], late)


def test_templates_are_changed_and_deleted_and_their_names_are_unique(caller: Caller) -> None:
    body = {"brand": "acme", "name": "News", "content": TEXT}
    made = caller("POST", TEMPLATES, body).data
    again = caller("POST", TEMPLATES, body)
    assert (again.status_code, again.data["errors"][0]["pointer"]) == (422, "/name")
    path = f"{TEMPLATES}/{made['id']}"
    changed = caller("PATCH", path, {"name": "Offers", "content": {"caption": "{{price}}"}})
    assert (changed.data["name"], changed.data["placeholders"]) == ("Offers", ["price"])
    wrong = caller("PATCH", path, {"content": {"nothing": 1}})
    assert (wrong.status_code, wrong.data["code"]) == (422, "fp_publisher_invalid_plan")
    assert caller("DELETE", path).status_code == 204
    assert caller("GET", path).status_code == 404 and not Template.objects.exists()


def test_others_templates_do_not_exist(caller: Caller) -> None:
    services.create_brand("other", "Other")
    theirs = template_verbs.create_with("other", "News", TEXT, by="ada")
    path = f"{TEMPLATES}/{theirs.pk}"
    assert caller("GET", TEMPLATES).data["data"] == []
    for method, body in (("GET", None), ("PATCH", {"name": "Ours"}), ("DELETE", None)):
        assert caller(method, path, body).status_code == 404
    plan = {"brand": "acme", "title": "x", "template": str(theirs.pk)}
    refused = caller("POST", "/publisher/plans", plan)
    assert (refused.status_code, refused.data["errors"][0]["pointer"]) == (422, "/template")
    assert not Plan.objects.exists()


def test_pages_make_a_template_and_a_plan_of_it(
    accounts: dict[str, Account], admin_client: Client
) -> None:
    base = "/admin/publisher"
    given: dict[str, Any] = {"brand": "acme", "name": "News", "caption": "{{day}} from seven"}
    answer = admin_client.post(f"{base}/template/do/create/", given)
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    template = Template.objects.get()
    assert "day" in admin_client.get(f"{base}/template/{template.pk}/change/").content.decode()
    given = {
        "brand": "acme", "title": "Monday", "template": str(template.pk),
        "placeholders": "day=Monday", "channels": ["meta_facebook"], "at": AT,
    }  # fmt: skip
    answer = admin_client.post(f"{base}/plan/do/create/", given)
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    plan = Plan.objects.get()
    assert plan.versions.get().content == {
        "caption": "{{day}} from seven", "placeholders": {"day": "Monday"},
    }  # fmt: skip
    page = admin_client.get(f"{base}/plan/{plan.pk}/do/edit/").content.decode()
    assert "day=Monday" in page
    wrong = admin_client.post(f"{base}/plan/do/create/", {**given, "placeholders": "day"})
    assert wrong.status_code == 422 and "name=value" in wrong.content.decode()
    given = {"name": "Offers", "caption": "", "headline": "", "link": "", "first_comment": ""}
    answer = admin_client.post(f"{base}/template/{template.pk}/do/edit/", given)
    template.refresh_from_db()
    assert (answer.status_code, template.name) == (302, "Offers")


def test_values_of_placeholders_survive_a_form() -> None:
    values = {"a": "x = y", "b": "two\nlines", "c": ""}
    assert plan_verbs.values_of(plan_verbs.lines_of(values)) == values


def test_an_approver_reads_the_text_that_will_appear(
    accounts: dict[str, Account], admin_client: Client
) -> None:
    brand = accounts["meta_facebook"].brand
    row = Asset.objects.create(
        brand=brand, tenant=brand.tenant, name="a.jpg", size=3, content_type="image/jpeg",
        kind="image", is_ready=True,
    )  # fmt: skip
    values = {"day": "Monday", "bread": "rye"}
    content = {**TEXT, "placeholders": values, "media": [{"asset": str(row.pk)}]}
    places = [plans.Place("meta_facebook", AT)]
    plan = plan_verbs.create_with("acme", "Monday", content, places, by="ada")
    page = admin_client.get(f"/admin/publisher/plan/{plan.pk}/change/").content.decode()
    assert "Monday: rye from seven" in page and f"media: {row.name}" in page
    assert "Facebook page: 22 / 63206" in page and "Google" not in page


def test_an_approver_reads_what_the_channels_think(
    accounts: dict[str, Account], admin_client: Client
) -> None:
    content = {"caption": "🍞" * 1300, "link": "https://acme.test/"}
    places = [plans.Place(one, AT) for one in ("google_business", "meta_instagram")]
    plan = plan_verbs.create_with("acme", "Monday", content, places, by="ada")
    page = admin_client.get(f"/admin/publisher/plan/{plan.pk}/change/").content.decode()
    assert "Google Business Profile: 1300 / 1500" in page and "Instagram: 1300 / 2200" in page
    assert "Google Business Profile, caption: is close to the limit of 1500" in page
    assert "Instagram, media: Instagram needs an image or a video" in page
