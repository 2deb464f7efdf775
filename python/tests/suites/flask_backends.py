"""The classes that run Flask-Caching's tests of backends. The suite copies this file to tests of
its source."""

import os
import uuid

import pytest
from test_backend_cache import GenericCacheTests

from larder_cache.flask import LarderCache


def new_path():
    return f"{os.environ['FOLDER']}/{uuid.uuid4()}"


def backend_of_app(app, config, args, kwargs):
    kwargs = {"shared": new_path(), "memory": "16M", "serializer": "pickle", **kwargs}
    return LarderCache.factory(app, config, args, kwargs)


class TestShared(GenericCacheTests):
    _can_use_fast_sleep = False

    @pytest.fixture(params=["", "prefix:"])
    def make_cache(self, request):
        return lambda: LarderCache(
            key_prefix=request.param, shared=new_path(), memory="16M", serializer="pickle"
        )


class TestMemoryOfThisProcess(GenericCacheTests):
    _can_use_fast_sleep = False

    @pytest.fixture
    def make_cache(self):
        return lambda: LarderCache(memory="16M", serializer="json")
