"""The one API of the project."""

from django.apps import apps

from jobs.api import build_api
from jobs.api.build import add_rest

api = build_api()
if apps.is_installed("emailgw"):
    from emailgw.api_lists import router

    api.add_router("", router)
add_rest(api)
