"""Discovery with the client of django-elastipymemcache: discovery.py LIST PORT PORT PORT. The
servers on the ports read the file LIST, which names all of them."""

import os
import sys
import time

import django
from django.conf import settings
from django_elastipymemcache.client import AWSElastiCacheClient
from pymemcache.client.base import Client

LIST, PORTS = sys.argv[1], [int(port) for port in sys.argv[2:]]
CONFIGURATION = f"127.0.0.1:{PORTS[0]}"
KEYS = [f"key:{number}" for number in range(300)]


def check(name, holds):
    print(f"{'ok' if holds else 'not ok'} - {name}", flush=True)


def until(holds):
    """Waits up to 10 seconds until something holds."""
    deadline = time.monotonic() + 10
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()


def write(ports):
    """Replaces the list in one step."""
    with open(LIST + ".new", "w") as new:
        new.writelines(f"127.0.0.1:{port}\n" for port in ports)
    os.rename(LIST + ".new", LIST)


def ports_of(client):
    return sorted(int(name.rsplit(":", 1)[1]) for name in client.clients)


def items_of(port):
    server = Client(("127.0.0.1", port))
    return server.stats()[b"curr_items"]


def discovers(**options):
    client = AWSElastiCacheClient(CONFIGURATION, discovery_interval=0.2, **options)
    check(f"{options}: the servers of the list", ports_of(client) == sorted(PORTS))
    for key in KEYS:
        client.set(key, key.encode(), noreply=False)
    are_read = all(client.get(key) == key.encode() for key in KEYS)
    check(f"{options}: what it stores, it reads", are_read)
    check(f"{options}: all servers have items", all(items_of(port) > 0 for port in PORTS))

    def has(ports):
        # The client asks for the list before a command.
        client.get("key:0")
        return ports_of(client) == sorted(ports)

    write(PORTS[:2])
    check(f"{options}: a server leaves", until(lambda: has(PORTS[:2])))
    with open(LIST, "w") as torn:
        torn.write("127.0.0.1:")
    time.sleep(1)
    check(f"{options}: a broken list changes nothing", has(PORTS[:2]))
    write(PORTS)
    check(f"{options}: a server joins", until(lambda: has(PORTS)))
    client.close()


def as_a_backend():
    """The cache of a Django project, as docs/discovery.md shows it."""
    backend = "django_elastipymemcache.backend.ElastiPymemcache"
    settings.configure(CACHES={"default": {"BACKEND": backend, "LOCATION": CONFIGURATION}})
    django.setup()
    from django.core.cache import cache

    cache.set("answer", {"of": 42}, 60)
    check("a Django cache", cache.get("answer") == {"of": 42})


discovers()
discovers(use_pooling=True)
discovers(use_vpc_ip_address=False)
as_a_backend()
print("done")
