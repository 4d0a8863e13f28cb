"""Brands, accounts and posts in every state, for the pages that show them."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

from django.db import connections

from config.standins.publisher import Standin
from jobs.testing import freeze_clock, run_jobs
from publisher import brand_verbs, clock, plan_verbs, plans, services, template_verbs, verbs
from publisher.models import Account, Brand, Publication
from tests.publisher import factories

LONG = "Nuovo orario d'autunno: pane fresco dalle sette, anche la domenica. " * 8


def fill(standin: Standin) -> dict[str, Any]:
    """Ids of what the pages are about."""
    brand = services.create_brand("acme-cafe", "Acme Café & Panificio Torinese", "Europe/Rome")
    services.create_brand("nova", "Nova")
    everywhere = services.create_brand("everywhere", "Zefiro", "Europe/Rome")
    factories.accounts(everywhere, standin.url, "-z")
    accounts = factories.accounts(brand, standin.url)
    facebook, instagram = accounts["meta_facebook"], accounts["meta_instagram"]
    made: dict[str, Any] = {"brand": brand.pk}
    with freeze_clock() as moment:
        made["sent"] = _post(facebook, LONG)
        made["reel"] = _post(instagram, "Il pane", ig_first_comment="Ordina su acme.test")
        made["video"] = _post(accounts["youtube"], "Il forno")
        for _ in range(4):
            run_jobs(["publisher"])
            moment.tick(11)
        standin.misbehave("POST /page/feed", "400")
        made["failed"] = _post(facebook, "Refused")
        standin.misbehave("POST /page/videos", "drop")
        made["doubt"] = _post(facebook, "", media=[factories.VIDEO])
        for _ in range(12):
            run_jobs(["publisher"])
            moment.tick(60)
        made["old"] = _post(facebook, "Old")
        run_jobs(["publisher"])
        Publication.objects.filter(pk=made["old"]).update(content={})
        later = clock.now() + timedelta(days=3)
        made["planned"] = services.schedule(
            facebook, factories.post("meta_facebook", "Domani"), later
        ).row.pk
        cancelled = services.schedule(facebook, factories.post("meta_facebook", "No"), later).row
        verbs.cancel(cancelled.pk, by="root", reason="a typo")
        made["cancelled"] = cancelled.pk
    made |= _planned()
    made["comment"] = Publication.objects.get(parent=made["reel"]).pk
    Account.objects.filter(pk=accounts["google_business"].pk).update(status="needs_reconnect")
    made |= {name: accounts[name].pk for name in ("meta_facebook", "google_business", "tiktok")}
    connections.close_all()
    return made


def _planned() -> dict[str, Any]:
    """A template, a plan of it that was edited and is to be approved, and times of the brand."""
    brand = Brand.objects.get(slug="acme-cafe")
    brand_verbs.set_times(brand.pk, "09:00, mon-fri 18:30", by="root", reason="new")
    brand_verbs.add_window(brand.pk, time(22), time(6), by="root", reason="night", days="fri-sun")
    text = {"caption": "{{giorno}}: " + LONG, "title": "Notizie di {{giorno}}"}
    template = template_verbs.create_with("acme-cafe", "Novità del giorno", text, by="root")
    places = [plans.Place(one, "next") for one in ("meta_facebook", "wordpress_blog")]
    plan = plan_verbs.create_with(
        "acme-cafe", "Novità di lunedì", {"placeholders": {"giorno": "Lunedì"}}, places,
        by="root", template=template.pk,
    )  # fmt: skip
    plan_verbs.edit(plan.pk, by="root", headline="Notizie di {{giorno}} mattina")
    plan_verbs.comment(plan.pk, "Va bene così?", by="root")
    plan_verbs.submit(plan.pk, by="root")
    plan_verbs.reject(plan.pk, by="root", note="Più corto, per favore.")
    plan_verbs.submit(plan.pk, by="root")
    plan_verbs.create_with("acme-cafe", "Un'idea", {"caption": "Focaccia?"}, [], by="root")
    slot = plan.slots.order_by("id")[0]
    moving = plan_verbs.create_with(
        "acme-cafe", "Moving", {"caption": "Moving bread"},
        [plans.Place("meta_facebook", "2031-05-06T10:00")], by="root",
    )  # fmt: skip
    return {"template": template.pk, "plan": plan.pk, "slot": slot.pk, "moving": moving.pk}


def _post(account: Account, text: str, **fields: Any) -> Any:
    post = factories.post(account.channel, text, **fields)
    return services.enqueue(account, post).row.pk


def screens(ids: dict[str, Any]) -> dict[str, str]:
    """Addresses below the admin, by name."""
    post, account, brand = (f"publisher/{name}" for name in ("publication", "account", "brand"))
    return {
        "publications": f"{post}/",
        "publications-in-doubt": f"{post}/?reason=in_doubt",
        "publications-none": f"{post}/?q=nothing-has-this-key",
        **{
            f"publication-{name}": f"{post}/{ids[name]}/change/"
            for name in (
                "sent", "reel", "comment", "video", "failed", "doubt", "old", "planned",
                "cancelled",
            )
        },
        "publication-replay": f"{post}/{ids['failed']}/do/replay/",
        "publication-settle": f"{post}/{ids['doubt']}/do/settle/",
        "publication-cancel": f"{post}/{ids['planned']}/do/cancel/",
        "publication-move": f"{post}/{ids['planned']}/do/move/",
        "accounts": f"{account}/",
        "account": f"{account}/{ids['meta_facebook']}/change/",
        "account-lost": f"{account}/{ids['google_business']}/change/",
        "account-schedule": f"{account}/{ids['meta_facebook']}/do/schedule/",
        "account-reconnect": f"{account}/{ids['google_business']}/do/reconnect/",
        "account-disable": f"{account}/{ids['tiktok']}/do/disable/",
        "brands": f"{brand}/",
        "brand": f"{brand}/{ids['brand']}/change/",
        "brand-connect": f"{brand}/{ids['brand']}/do/connect/",
        "brand-new": f"{brand}/do/create/",
        "brand-times": f"{brand}/{ids['brand']}/do/set-times/",
        "brand-window": f"{brand}/{ids['brand']}/do/add-window/",
        "brand-window-removed": f"{brand}/{ids['brand']}/do/remove-window/",
        "templates": "publisher/template/",
        "template": f"publisher/template/{ids['template']}/change/",
        "template-new": "publisher/template/do/create/",
        "template-edit": f"publisher/template/{ids['template']}/do/edit/",
        "calendar": "publisher/calendar/?brand=acme-cafe",
        "calendar-month": "publisher/calendar/?brand=acme-cafe&view=month",
        "calendar-empty": "publisher/calendar/?brand=nova",
        "plans": "publisher/plan/",
        "plan": f"publisher/plan/{ids['plan']}/change/",
        "plan-new": "publisher/plan/do/create/",
        "plan-edit": f"publisher/plan/{ids['plan']}/do/edit/",
        "plan-override": f"publisher/plan/{ids['plan']}/do/override/",
        "plan-approve": f"publisher/plan/{ids['plan']}/do/approve/",
        "slot": f"publisher/slot/{ids['slot']}/change/",
        "slot-move": f"publisher/slot/{ids['slot']}/do/move/",
        "assets": "publisher/asset/",
        "asset-new": "publisher/asset/do/upload/",
        "job-of-publication": f"jobs/job/{ids['sent']}/change/",
    }  # fmt: skip


_IDS = (
    "brand", "sent", "reel", "comment", "video", "failed", "doubt", "old", "planned", "cancelled",
    "meta_facebook", "google_business", "tiktok", "template", "plan", "slot",
)  # fmt: skip
NAMES = list(screens(dict.fromkeys(_IDS, "")))
"""Every screen."""
DIFFERING = {
    "publications", "publication-sent", "publication-settle", "account", "brand", "calendar",
}  # fmt: skip
"""One of each kind: enough where only the theme or the version of Django is another."""
