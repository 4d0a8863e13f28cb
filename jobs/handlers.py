"""The core's own kinds: found like every app's."""

from jobs import conf

if conf.settings().WEBHOOKS:
    from jobs.engine import webhooks

    webhooks.register()
