"""The settings of the site. SHOP_CACHE is the path of the cache."""

import os

SECRET_KEY = "only for this example"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "django_app.urls"
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware"]
INSTALLED_APPS = ["django.contrib.sessions"]

CACHES = {
    "default": {
        "BACKEND": "larder_cache.django.LarderCache",
        "LOCATION": os.environ.get("SHOP_CACHE", "/dev/shm/shop"),
        # Sessions are dicts. The file belongs to the user of the workers, so "pickle" is safe.
        "OPTIONS": {"memory": "64M", "serializer": "pickle"},
    },
}
SESSION_ENGINE = "django.contrib.sessions.backends.cache"
