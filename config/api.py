"""The one API of the project."""

from django.apps import apps

from jobs.api import build_api
from jobs.api.build import add_rest

api = build_api()
if apps.is_installed("emailgw"):
    from emailgw import api as letters
    from emailgw import (
        api_lists,  # noqa: F401  operations of the same router
        api_rest,  # noqa: F401  and after all others, what is none
    )

    api.add_router("", letters.router)
add_rest(api)
