"""The one API of the project."""

from django.apps import apps

from jobs.api import add_rest, build_api

api = build_api()
if apps.is_installed("emailgw"):
    from emailgw import api as emails
    from emailgw import (
        api_batches,  # noqa: F401  operations of the same section
        api_companies,  # noqa: F401
        api_not_found,
        api_suppressions,  # noqa: F401
    )

    api.add_router("", emails.section.router)
    api.add_router("", api_not_found.router)  # after all others, what is none
if apps.is_installed("publisher"):
    from publisher import api as publications
    from publisher import (
        api_assets,  # noqa: F401  operations of the same section
        api_brands,  # noqa: F401
        api_jobs,  # noqa: F401
        api_plans,  # noqa: F401
        api_preflight,  # noqa: F401
        api_status,  # noqa: F401
        api_templates,  # noqa: F401
    )

    api.add_router("/publisher", publications.section.router)
if apps.is_installed("trading"):
    from trading import api as trading

    api.add_router("", trading.section.router)
if apps.is_installed("operations"):
    from operations import api as operations

    api.add_router("", operations.section.router)
add_rest(api)
