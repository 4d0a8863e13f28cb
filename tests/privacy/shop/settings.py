"""Settings whose keys come from the environment, as JSON."""

import json
import os

from tests.settings import *  # noqa: F403

# The shop is to be the only one that needs keys.
INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith("emailgw")]  # noqa: F405
INSTALLED_APPS += ["tests.privacy.shop"]
JOBS = json.loads(os.environ.get("SHOP_JOBS", "{}"))
