"""Admin sites of the project's own, next to or instead of the default one."""

from __future__ import annotations

from importlib import import_module

from django.contrib import admin
from django.contrib.admin.sites import AdminSite, all_sites
from django.http import HttpRequest


def register(site: AdminSite, *apps: str) -> None:
    """Register the pages of the jobs, and those of these apps, with a site of your own.

    Call it before the site's URLs are read, and name each app by its package::

        register(desk, "emailgw")
    """
    labels = []
    for app in ("jobs", *apps):
        import_module(f"{app}.admin")
        labels.append(app.rpartition(".")[2])
    for model, page in list(admin.site._registry.items()):
        if model._meta.app_label in labels and not site.is_registered(model):
            site.register(model, type(page))


def current(request: HttpRequest) -> AdminSite:
    """Return the site that serves the request."""
    name = request.resolver_match.namespace if request.resolver_match else admin.site.name
    return next((site for site in all_sites if site.name == name), admin.site)
