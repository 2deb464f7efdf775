"""The classes that run Django's tests of cache backends. The suite copies this file to tests/cache
of Django's source."""

import unittest

from django.conf import settings
from django.core.cache import InvalidCacheKey, cache
from django.test import TestCase, override_settings

from larder_cache import CounterError

from .tests import BaseCacheTests, caches_setting_for_tests

SHARED = "larder_cache.django.LarderCache"
CLIENT = "larder_cache.django.LarderClient"


def caches_of(backend, location, **options):
    """Returns the settings for a location. The backends ignore the options of the two caches that
    are culled, so these tests do not apply."""
    return caches_setting_for_tests(
        exclude={"cull", "zero_cull"}, BACKEND=backend, LOCATION=location, OPTIONS=options
    )


class LarderTests(BaseCacheTests):
    incr_decr_type_error = CounterError

    @unittest.skip("Larder limits the memory of a cache, not its number of items")
    def test_cull(self):
        pass

    @unittest.skip("Larder limits the memory of a cache, not its number of items")
    def test_zero_cull(self):
        pass

    @unittest.skip("Larder limits the memory of a cache, not its number of items")
    def test_cull_delete_when_store_empty(self):
        pass

    def _check_refused(self, key):
        """As in the tests of Django's backends for memcached: Django's other backends warn."""
        tests = [
            ("add", [key, 1]),
            ("get", [key]),
            ("set", [key, 1]),
            ("incr", [key]),
            ("decr", [key]),
            ("touch", [key]),
            ("delete", [key]),
            ("has_key", [key]),
            ("get_or_set", [key, lambda: 1]),
            ("get_many", [[key, "b"]]),
            ("set_many", [{key: 1, "b": 2}]),
            ("delete_many", [[key, "b"]]),
        ]
        for operation, args in tests:
            with self.subTest(operation=operation), self.assertRaises(InvalidCacheKey):
                getattr(cache, operation)(*args)

    def _perform_invalid_key_test(self, key, expected_warning, key_func=None):
        if len(key) > 200:
            # Django's expected_warning is the message of backends for memcached.
            self._check_refused(key)
            return
        for operation in (cache.add, cache.set):
            operation(key, 1)
            self.assertEqual(cache.get(key), 1)
            self.assertIs(cache.delete(key), True)


@override_settings(
    CACHES=caches_of(SHARED, f"{settings.FOLDER}/shared", memory="16M", serializer="pickle")
)
class SharedMemoryTests(LarderTests, TestCase):
    pass


@override_settings(CACHES=caches_of(SHARED, "local", memory="16M", serializer="pickle"))
class LocalMemoryTests(LarderTests, TestCase):
    pass


@override_settings(
    CACHES=caches_of(SHARED, f"{settings.FOLDER}/signed", memory="16M", **settings.SIGNED)
)
class SignedTests(LarderTests, TestCase):
    pass


class ClientTests(LarderTests):
    def _perform_invalid_key_test(self, key, expected_warning, key_func=None):
        self._check_refused(key)


@override_settings(CACHES=caches_of(CLIENT, f"unix:{settings.FOLDER}/one.sock", **settings.SIGNED))
class OneServerTests(ClientTests, TestCase):
    pass


@override_settings(
    CACHES=caches_of(
        CLIENT,
        [f"unix:{settings.FOLDER}/one.sock", f"unix:{settings.FOLDER}/other.sock"],
        **settings.SIGNED,
    )
)
class SeveralServersTests(ClientTests, TestCase):
    pass


@override_settings(CACHES=caches_of(CLIENT, f"unix:{settings.FOLDER}/near.sock", **settings.SIGNED))
class NearCacheTests(ClientTests, TestCase):
    pass
