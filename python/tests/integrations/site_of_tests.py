"""A site of Django: its views count how often they run."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.template import Context, Template
from django.urls import path
from django.views.decorators.cache import cache_page

runs: dict[str, int] = {}

FRAGMENT = Template(
    "{% load cache %}{% cache 60 greeting name %}{{ count }} {{ name }}{% endcache %}"
)


def count(name: str) -> int:
    runs[name] = runs.get(name, 0) + 1
    return runs[name]


def visits(request: HttpRequest) -> HttpResponse:
    request.session["visits"] = request.session.get("visits", 0) + 1
    return HttpResponse(str(request.session["visits"]))


def sign_out(request: HttpRequest) -> HttpResponse:
    request.session.flush()
    return HttpResponse("bye")


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"page {count('page')}", headers={"X-Kept": "yes"})


def fragment(request: HttpRequest) -> HttpResponse:
    name = request.GET["name"]
    context = Context({"count": count(f"fragment {name}"), "name": name})
    return HttpResponse(FRAGMENT.render(context))


urlpatterns = [
    path("visits", visits),
    path("sign_out", sign_out),
    path("page", page),
    path("cached_page", cache_page(60)(page)),
    path("fragment", fragment),
]
