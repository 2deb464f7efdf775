"""Files in shared memory, and Django's settings."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import django
import pytest
from django.conf import settings


@pytest.fixture
def path() -> Iterator[str]:
    """The path of a file for a shared cache, which does not exist yet."""
    name = f"/dev/shm/larder-test-{os.getpid()}-{uuid.uuid4()}"
    yield name
    Path(name).unlink(missing_ok=True)


def pytest_configure() -> None:
    database = Path(tempfile.mkdtemp(prefix="larder-django")) / "db.sqlite3"
    settings.configure(
        SECRET_KEY="only for tests",
        ALLOWED_HOSTS=["testserver"],
        ROOT_URLCONF="integrations.site_of_tests",
        INSTALLED_APPS=["django.contrib.sessions"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database}},
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
        SESSION_SERIALIZER="django.contrib.sessions.serializers.JSONSerializer",
    )
    django.setup()


def pytest_unconfigure() -> None:
    database = Path(settings.DATABASES["default"]["NAME"])
    database.unlink(missing_ok=True)
    database.parent.rmdir()
