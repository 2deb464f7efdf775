"""The classes that run dogpile.cache's tests of backends. The suite copies this file to tests/cache
of dogpile's source."""

import os

from dogpile.cache.proxy import ProxyBackend
from dogpile.testing.fixtures import (
    _GenericBackendTestSuite,
    _GenericMutexTestSuite,
    _GenericSerializerTestSuite,
)

# Registers the backend.
import larder_cache.dogpile  # noqa: F401

SHARED = f"{os.environ['FOLDER']}/shared"


def arguments(**more):
    return {"arguments": {"shared": SHARED, "memory": "16M", **more}}


class SharedTest(_GenericBackendTestSuite):
    backend = "larder"
    config_args = arguments(serializer="pickle")


class SignedTest(_GenericBackendTestSuite):
    backend = "larder"
    config_args = arguments(serializer="pickle", signing_key="a key for the tests only")


class JsonTest(_GenericBackendTestSuite):
    backend = "larder"
    config_args = arguments(serializer="json")


class MsgspecTest(_GenericBackendTestSuite):
    backend = "larder"
    config_args = arguments(serializer="msgspec")


class MemoryOfThisProcessTest(_GenericBackendTestSuite):
    backend = "larder"
    config_args = arguments(shared=None, serializer="pickle")


class ProxyTest(_GenericBackendTestSuite):
    backend = "larder"
    config_args = arguments(serializer="pickle") | {"wrap": [ProxyBackend]}


class WithoutDistributedLockTest(_GenericBackendTestSuite):
    backend = "larder"
    config_args = arguments(serializer="pickle", distributed_lock=False)


class RegionSerializerTest(_GenericSerializerTestSuite, _GenericBackendTestSuite):
    backend = "larder"
    config_args = arguments()


class MutexTest(_GenericMutexTestSuite):
    backend = "larder"
    config_args = arguments(serializer="pickle")
