"""Makes the people of a fleet: a key for each tenant, and ana, who is not of the staff."""

from __future__ import annotations

import json
import sys

import django

if __name__ == "__main__":
    django.setup()

    from django.contrib.auth.models import User

    from fileproc.permissions import QUEUES
    from fileproc.verbs import OWN
    from jobs.operate import apikeys

    keys = {
        tenant: apikeys.create(
            tenant, [*sorted(OWN), "view_job"], by="tests", reason="a test", tenants=[tenant],
            queues=list(QUEUES),
        ).text
        for tenant in sys.argv[1:]
    }  # fmt: skip
    User.objects.filter(username="ana").delete()
    User.objects.create_user("ana", password="lighthouse")
    sys.stdout.write(json.dumps(keys))
