"""Django's sessions, cached pages and template fragments, with both backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import servers
from django.core.cache import caches
from django.core.management import call_command
from django.test import Client, override_settings

from . import site_of_tests

SESSIONS = "django.contrib.sessions.middleware.SessionMiddleware"
SIGNED = {"serializer": "pickle", "signing_key": "a key for the tests only"}


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    with servers.larderd(readers=True) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def database() -> None:
    call_command("migrate", verbosity=0)


@pytest.fixture(params=["shared", "client"], autouse=True)
def configured(request: pytest.FixtureRequest, path: str, server: servers.Server) -> Iterator[None]:
    site_of_tests.runs.clear()
    if request.param == "shared":
        settings = {
            "BACKEND": "larder_cache.django.LarderCache",
            "LOCATION": path,
            "OPTIONS": {"memory": "16M", "serializer": "pickle"},
        }
    else:
        settings = {
            "BACKEND": "larder_cache.django.LarderClient",
            "LOCATION": server.address,
            "OPTIONS": SIGNED,
        }
    with override_settings(CACHES={"default": settings}):
        yield
        caches["default"].clear()


@pytest.mark.parametrize("engine", ["cache", "cached_db"])
def test_sessions(engine: str) -> None:
    with override_settings(
        MIDDLEWARE=[SESSIONS], SESSION_ENGINE=f"django.contrib.sessions.backends.{engine}"
    ):
        ada, ben = Client(), Client()
        assert [ada.get("/visits").content for _ in range(3)] == [b"1", b"2", b"3"]
        assert ben.get("/visits").content == b"1"
        caches["default"].clear()
        # Without the cache, only the database still has the session.
        assert ada.get("/visits").content == (b"1" if engine == "cache" else b"4")
        ada.get("/sign_out")
        assert ada.get("/visits").content == b"1"


def test_the_site_wide_cache_keeps_responses() -> None:
    with override_settings(
        MIDDLEWARE=[
            "django.middleware.cache.UpdateCacheMiddleware",
            "django.middleware.cache.FetchFromCacheMiddleware",
        ]
    ):
        answers = [Client().get("/page") for _ in range(3)]
        assert {answer.content for answer in answers} == {b"page 1"}
        assert answers[2].headers["X-Kept"] == "yes"
        assert Client().get("/page?other").content == b"page 2"


def test_cache_page_keeps_the_response_of_a_view() -> None:
    assert {Client().get("/cached_page").content for _ in range(3)} == {b"page 1"}


def test_template_fragments_stay_safe() -> None:
    """The cached text is not escaped again."""
    first = Client().get("/fragment?name=<Ada>").content
    assert first == b"1 &lt;Ada&gt;"
    assert Client().get("/fragment?name=<Ada>").content == first
    assert Client().get("/fragment?name=Ben").content == b"1 Ben"
