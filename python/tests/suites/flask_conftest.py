"""The fixtures of Flask-Caching's tests, with the backend of larder_cache."""

import os
import time

import flask
import flask_caching
import pytest


@pytest.fixture
def app(request):
    app = flask.Flask(request.module.__name__, template_folder=os.path.dirname(__file__))
    app.testing = True
    # Some tests replace the type by that of another backend, so this one has its options itself.
    app.config["CACHE_TYPE"] = "test_larder_backend.backend_of_app"
    return app


@pytest.fixture
def cache(app):
    return flask_caching.Cache(app)


@pytest.fixture(
    params=list(flask_caching.SUPPORTED_HASH_FUNCTIONS), ids=lambda method: method.__name__
)
def hash_method(request):
    return request.param


class _Clock:
    """Other backends are tested with a clock that the tests set; time passes for this one."""

    advance = staticmethod(time.sleep)


@pytest.fixture
def clock():
    return _Clock()
