"""pymemcache with users: users.py PORT FOLDER. FOLDER has the sockets `noauth` and `readonly`."""

import sys

from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError

PORT, FOLDER = int(sys.argv[1]), sys.argv[2]
ADDRESS = ("127.0.0.1", PORT)


def check(name, holds):
    print(f"{'ok' if holds else 'not ok'} - pymemcache: {name}")


def refusal(operation):
    """Returns the message of the exception that an operation raises; None if it raises none."""
    try:
        operation()
    except MemcacheClientError as error:
        return str(error.args[0])
    return None


def is_refused(operation, words="not permitted"):
    message = refusal(operation)
    return message is not None and words in message


class LoggedIn(Client):
    """Logs in on each connection: after an error pymemcache closes it and opens another one."""

    def _connect(self):
        super()._connect()
        self.set("login", "shop sesame", noreply=False)


def login_by_hand():
    client = Client(ADDRESS)
    refused = is_refused(lambda: client.get("shop:1"), "unauth")
    check("a command without a login is refused", refused)
    login = client.set("login", "shop sesame", noreply=False)
    check("a login answers like a set", login is True)
    check("a permitted set", client.set("shop:1", b"one", noreply=False) is True)
    check("a permitted get", client.get("shop:1") == b"one")
    check("a refused set", is_refused(lambda: client.set("other:1", b"x", noreply=False)))
    again = is_refused(lambda: client.get("shop:1"), "unauth")
    check("after a refusal pymemcache connects again, without a login", again)
    wrong = is_refused(lambda: client.set("login", "shop wrong", noreply=False), "authentication")
    check("a wrong password is refused", wrong)
    client.close()


def login_of_each_connection():
    client = LoggedIn(ADDRESS)
    check("a class that logs in: get", client.get("shop:1") == b"one")
    check("a class that logs in: a refused get", is_refused(lambda: client.get("other:1")))
    check("a class that logs in: get after the refusal", client.get("shop:1") == b"one")
    mixed = is_refused(lambda: client.get_many(["shop:1", "other:1"]))
    check("a refused key refuses the whole get_many", mixed)
    check("get_many of permitted keys", client.get_many(["shop:1"]) == {"shop:1": b"one"})
    client.close()

    class Pool(PooledClient):
        client_class = LoggedIn

    pool = Pool(ADDRESS, max_pool_size=2)
    check("a pool of this class", pool.get("shop:1") == b"one")
    check("a pool of this class: a refused get", is_refused(lambda: pool.get("other:1")))
    pool.close()


def sockets_without_a_login():
    client = Client(f"unix:{FOLDER}/noauth")
    check("noauth: any key", client.set("other:1", b"any", noreply=False) is True)
    check("noauth: get", client.get("other:1") == b"any")
    client.close()
    client = Client(f"unix:{FOLDER}/readonly")
    check("readonly: get", client.get("other:1") == b"any")
    refused = is_refused(lambda: client.set("other:1", b"x", noreply=False))
    check("readonly: a refused set", refused)
    check("readonly: the value stays", client.get("other:1") == b"any")
    client.close()


login_by_hand()
login_of_each_connection()
sockets_without_a_login()
