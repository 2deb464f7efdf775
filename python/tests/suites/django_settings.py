"""Settings of Django's own tests, with the backends of larder_cache."""

import os

FOLDER = os.environ["FOLDER"]
SIGNED = {"serializer": "pickle", "signing_key": "a key for the tests only"}

CACHES = {
    "default": {
        "BACKEND": "larder_cache.django.LarderCache",
        "LOCATION": f"{FOLDER}/sessions",
        "OPTIONS": {"memory": "16M", "serializer": "pickle"},
    },
}
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3"},
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
SECRET_KEY = "only for tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
