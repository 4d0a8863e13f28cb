"""Load the scenes of every installed app, where what they run against is installed."""

from importlib.util import find_spec

from django.apps import apps

if apps.is_installed("emailgw") and find_spec("aiosmtpd") is not None:
    from config.demo import emailgw as emailgw
if apps.is_installed("fileproc"):
    from config.demo import fileproc as fileproc
if apps.is_installed("publisher"):
    from config.demo import publisher as publisher
if apps.is_installed("trading"):
    from config.demo import trading as trading
if apps.is_installed("operations"):
    from config.demo import operations as operations
