"""Settings of Django's own cache tests, with both of its memcached backends on larderd."""

import os

LOCATION = f"127.0.0.1:{os.environ['LARDER_PORT']}"
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "pymemcache": {"BACKEND": "django.core.cache.backends.memcached.PyMemcacheCache", "LOCATION": LOCATION},
    "pylibmc": {"BACKEND": "django.core.cache.backends.memcached.PyLibMCCache", "LOCATION": LOCATION},
}
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3"},
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
SECRET_KEY = "only for tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
