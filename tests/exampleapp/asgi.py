"""The project's ASGI application with the app's sockets."""

from channels.routing import ProtocolTypeRouter, URLRouter

from jobs.asgi import get_asgi_application

pages = get_asgi_application()

from jobs.realtime import websocket_urlpatterns as of_the_platform  # noqa: E402
from tests.exampleapp.urls import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {"http": pages, "websocket": URLRouter([*of_the_platform, *websocket_urlpatterns])}
)
