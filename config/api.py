"""The one API of the project."""

from jobs.api import build_api
from jobs.api.build import add_rest

api = build_api()
add_rest(api)
