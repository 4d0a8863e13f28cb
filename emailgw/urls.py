"""URLs that providers call."""

from django.urls import path

from emailgw.webhooks import SesEvents

app_name = "emailgw"
urlpatterns = [path("ses/events", SesEvents.as_view(), name="ses-events")]
