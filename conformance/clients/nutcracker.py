"""The operations of a program through twemproxy: requests of all kinds, while one of the servers
stops and restarts."""

import contextlib
import os
import pwd
import random
import socket
import subprocess
import sys
import time

from pymemcache.client.base import Client

PROXY, LARDERD, *SERVERS = sys.argv[1:]
KEYS = 3000
RETURN_SECS = 10


def check(name, holds):
    print(f"{'ok' if holds else 'not ok'} - {name}", flush=True)


def connect(port=PROXY):
    return Client(("127.0.0.1", int(port)), timeout=5, default_noreply=False)


@contextlib.contextmanager
def last_server():
    """Runs the last server until the end of the block."""
    user = pwd.getpwuid(os.getuid()).pw_name
    server = subprocess.Popen([LARDERD, "-u", user, "-l", "127.0.0.1", "-p", SERVERS[-1], "-U", "0"])
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(SERVERS[-1]))).close()
                break
            except OSError:
                time.sleep(0.02)
        yield
    finally:
        server.terminate()
        server.wait()


def items_of(port):
    """Returns the number of items that a server holds."""
    return connect(port).stats()[b"curr_items"]


def requests(client):
    check("version", client.version().count(b".") == 2)
    sizes = [0, 1, 1023, 1024, 2048, 16384, 65536, 500000]
    check("sizes", all(client.set("sized", b"x" * size) and client.get("sized") == b"x" * size for size in sizes))
    check("add", client.add("c", b"a") and not client.add("c", b"b"))
    check("replace", client.replace("c", b"b") and not client.replace("nothing", b"b"))
    check("append, prepend", client.append("c", b"c") and client.prepend("c", b"a") and client.get("c") == b"abc")
    value, token = client.gets("c")
    check("cas", value == b"abc" and client.cas("c", b"new", token) and client.cas("c", b"newer", token) is False)
    check("cas of nothing", client.cas("nothing", b"v", token) is None)
    client.set("n", b"10")
    check("incr, decr", client.incr("n", 5) == 15 and client.decr("n", 20) == 0 and client.incr("nothing", 1) is None)
    check("touch", client.touch("c", 100) and not client.touch("nothing", 100))
    check("delete", client.delete("c") and not client.delete("c") and client.get("c") is None)
    client.set("silent", b"v", noreply=True)
    check("noreply", client.get("silent") == b"v")


def many(client):
    values = {f"key:{i}": random.randbytes(random.randrange(200)) for i in range(KEYS)}
    check("many sets", client.set_many(values) == [])
    check("gets of many keys over all servers", client.get_many([*values, "nothing"]) == values)
    found = {key: value for key, (value, _) in client.gets_many(list(values)).items()}
    check("gets of many keys with tokens", found == values)
    check("every server has its share", all(items_of(port) > KEYS / 10 for port in SERVERS))
    return values


def secs_until(condition, client):
    """Returns the seconds until a condition first holds, ignoring errors before; None if it never
    holds."""
    began = time.monotonic()
    while time.monotonic() - began < RETURN_SECS:
        try:
            if condition(client):
                return time.monotonic() - began
        except Exception:
            client.close()
        time.sleep(0.02)
    return None


def all_can_be_stored(client):
    return all(client.set(f"key:{i}", b"again") for i in range(300))


def main():
    client = connect()
    with last_server():
        requests(client)
        many(client)
    secs = secs_until(all_can_be_stored, client)
    check("two servers take over", secs is not None)
    print(f"# {secs or RETURN_SECS:.2f} s until two servers have taken over")
    with last_server():
        secs = secs_until(lambda client: all_can_be_stored(client) and items_of(SERVERS[-1]) > 0, client)
        check("the third comes back", secs is not None)
        print(f"# {secs or RETURN_SECS:.2f} s until the third is used again")
        requests(client)
    print("done")


main()
