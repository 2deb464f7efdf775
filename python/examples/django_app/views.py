"""The pages of the site."""

from __future__ import annotations

import os

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, JsonResponse

from .products import product


def show_product(request: HttpRequest, number: int) -> HttpResponse:
    return JsonResponse({**product(number), "pid": os.getpid()})


def count_visits(request: HttpRequest) -> HttpResponse:
    """Counts the visits of a user: sessions are in the cache, so any worker finds them."""
    visits = request.session["visits"] = request.session.get("visits", 0) + 1
    # `add` and `incr` are atomic, also if several workers execute them at the same time.
    cache.add("visits", 0, timeout=None)
    total = cache.incr("visits")
    return JsonResponse({"visits": visits, "total": total, "pid": os.getpid()})
