"""The operations of the publisher under an address of their own, such as ``/fp-publisher/v1``."""

from jobs.api import add_rest, build_api
from publisher import (
    api_assets,  # noqa: F401  operations of the same section
    api_brands,  # noqa: F401
    api_jobs,  # noqa: F401
    api_plans,  # noqa: F401
    api_preflight,  # noqa: F401
    api_status,  # noqa: F401
    api_templates,  # noqa: F401
)
from publisher.api import section

api = build_api(title="Publisher", urls_namespace="fp-publisher", include=())
api.add_router("", section.router)
add_rest(api)
