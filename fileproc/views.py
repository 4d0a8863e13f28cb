"""The page on which people upload and search."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_GET

from fileproc import config, extraction, ocr
from fileproc.models import FileStatus
from fileproc.permissions import owner_of_user
from jobs import blobs

POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)


@require_GET
@login_required
@ensure_csrf_cookie
def page(request: HttpRequest) -> HttpResponse:
    """Show the page; it talks to the upload API as the user who is logged in."""
    shown = {
        "api": reverse("uploads-api:api-root"),
        "owner": owner_of_user(request.user.pk),
        "endings": sorted(extraction.ENDINGS),
        "states": FileStatus.choices,
        "has_ocr": ocr.is_installed(),
        "most": config.settings().FILE_BYTES,
    }
    answer = render(request, "fileproc/page.html", shown)
    answer["Cache-Control"] = "no-store"
    if origin := blobs.store().origin:  # the browser uploads to it
        answer["Content-Security-Policy"] = f"{POLICY}; connect-src 'self' {origin}"
    return answer
