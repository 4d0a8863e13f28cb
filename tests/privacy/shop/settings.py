"""Settings whose keys come from the environment, as JSON."""

import json
import os

from tests.settings import *  # noqa: F403

INSTALLED_APPS = [*CORE_APPS, "tests.privacy.shop"]  # noqa: F405
JOBS = json.loads(os.environ.get("SHOP_JOBS", "{}"))
