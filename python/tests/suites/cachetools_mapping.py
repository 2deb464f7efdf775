"""The classes that run cachetools' tests of decorators. The suite copies this file to tests of its
source."""

import unittest

from larder_cache import Cache
from larder_cache.cachetools import LarderMapping

from .test_cached import DecoratorTestMixin


class LarderMappingTest(unittest.TestCase, DecoratorTestMixin):
    def cache(self, minsize):
        return LarderMapping(Cache(memory="2M"), "test:")
