import os

from jobs.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

pages = get_asgi_application()  # before anything that needs the models

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.apps import apps  # noqa: E402
from django.conf import settings  # noqa: E402
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler  # noqa: E402

from jobs.bodies import bounded_asgi  # noqa: E402
from jobs.realtime import websocket_urlpatterns  # noqa: E402

sockets = list(websocket_urlpatterns)
if apps.is_installed("trading"):
    from trading.urls import websocket_urlpatterns as of_trading

    sockets += of_trading
if apps.is_installed("operations"):
    from operations.urls import websocket_urlpatterns as of_operations

    sockets += of_operations

application = ProtocolTypeRouter(
    {
        "http": (
            bounded_asgi(ASGIStaticFilesHandler(pages), streams=True) if settings.DEBUG else pages
        ),
        "websocket": URLRouter(sockets),
    }
)
