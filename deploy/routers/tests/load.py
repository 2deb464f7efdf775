"""Clients that write and read through a router, and check every value that they read.

Each key has one writer and many readers. A writer numbers its changes of a key. A read is
correct if it finds the number of the last change that was acknowledged before the read began, or a
later one that was sent before the read ended. A smaller number is stale: an acknowledged change
was undone. An absent value is a miss; it is counted as lost if the last acknowledged change is a
set.
"""

import random
import socket
import threading
import time
from collections import Counter

KEYS_PER_CLIENT = 250
REQUESTS_PER_VISIT = 25
TIMEOUT_SECS = 10


class Refused(Exception):
    """The router did not accept the connection."""


class Failed(Exception):
    """A request was answered with an error, or its connection ended first."""


class Ledger:
    """The changes of all keys: how many were sent, and which was acknowledged last."""

    def __init__(self, keys):
        self.sent = dict.fromkeys(keys, 0)
        self.acknowledged = dict.fromkeys(keys, 0)
        # False while the last change of the key is an acknowledged set.
        self.may_be_absent = dict.fromkeys(keys, True)


class Connection:
    """The text protocol over one connection."""

    def __init__(self, port):
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECS)
        except OSError as error:
            raise Refused(str(error)) from error
        self.input = self.socket.makefile("rb")

    def close(self):
        self.input.close()
        self.socket.close()

    def line(self):
        line = self.input.readline()
        if not line.endswith(b"\r\n"):
            raise Failed("closed")
        if line.startswith((b"SERVER_ERROR", b"CLIENT_ERROR", b"ERROR")):
            raise Failed(line.decode().strip())
        return line.split()

    def change(self, request, expected):
        """Sends a change and waits until it is acknowledged."""
        try:
            self.socket.sendall(request)
            words = self.line()
        except OSError as error:
            raise Failed(type(error).__name__) from error
        if words[0] not in expected:
            raise Failed(f"answered {words} to {request[:40]}")

    def get(self, keys):
        """Returns the values that were found, by key."""
        found = {}
        try:
            self.socket.sendall(f"get {' '.join(keys)}\r\n".encode())
            while (words := self.line()) != [b"END"]:
                length = int(words[3])
                value = self.input.read(length + 2)
                if len(value) < length + 2:
                    raise Failed("closed")
                found[words[1].decode()] = value[:-2]
        except OSError as error:
            raise Failed(type(error).__name__) from error
        return found


def value_of(key, number):
    return f"{key} {number} ".encode() + b"x" * (number * 37 % 800)


class Load:
    """Clients that run until `stop`. The last two reconnect repeatedly."""

    def __init__(self, port, clients=8):
        self.port = port
        self.clients = clients
        keys = [f"key:{i}" for i in range(clients * KEYS_PER_CLIENT)]
        self.keys, self.ledger = keys, Ledger(keys)
        self.counts, self.reasons = Counter(), Counter()
        self.lock = threading.Lock()
        self.is_over = threading.Event()
        self.threads = []
        self.fault = None

    def connect(self):
        """Opens the connection of a client."""
        return Connection(self.port)

    def fill(self):
        """Stores every key once."""
        connection = self.connect()
        for key in self.keys:
            self.set(connection, key)
        connection.close()
        self.counts.clear()

    def start(self):
        for number in range(self.clients):
            self.threads.append(threading.Thread(target=self.run, args=[number], daemon=True))
            self.threads[-1].start()

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(TIMEOUT_SECS + 5)
        if self.fault:
            raise self.fault

    def count(self, what, by=1):
        with self.lock:
            self.counts[what] += by

    def run(self, number):
        try:
            while not self.is_over.is_set():
                self.visit(number, random.Random(f"{number} {self.counts['visits']}"))
                self.count("visits")
        except Exception as error:
            self.fault = error
            raise

    def visit(self, number, dice):
        """Connects and sends requests until one fails or the visit is over."""
        visit_ends = REQUESTS_PER_VISIT if number >= self.clients - 2 else float("inf")
        requests = 0
        try:
            connection = self.connect()
        except Refused:
            self.count("refused")
            time.sleep(0.01)
            return
        try:
            while requests < visit_ends and not self.is_over.is_set():
                requests += 1
                self.count("requests")
                self.request(connection, number, dice)
                time.sleep(0.0005)
        except Failed as failure:
            with self.lock:
                self.counts["errors"] += 1
                self.reasons[str(failure)] += 1
            time.sleep(0.01)
        finally:
            connection.close()

    def request(self, connection, number, dice):
        own = self.keys[number * KEYS_PER_CLIENT : (number + 1) * KEYS_PER_CLIENT]
        what = dice.random()
        if what < 0.3:
            self.set(connection, dice.choice(own))
        elif what < 0.32:
            self.delete(connection, dice.choice(own))
        elif what < 0.85:
            self.read(connection, [dice.choice(self.keys)])
        else:
            self.read(connection, dice.sample(self.keys, 5))

    def set(self, connection, key):
        number = self.ledger.sent[key] = self.ledger.sent[key] + 1
        value = value_of(key, number)
        connection.change(f"set {key} 0 0 {len(value)}\r\n".encode() + value + b"\r\n", [b"STORED"])
        self.ledger.acknowledged[key] = number
        self.ledger.may_be_absent[key] = False

    def delete(self, connection, key):
        number = self.ledger.sent[key] = self.ledger.sent[key] + 1
        self.ledger.may_be_absent[key] = True
        connection.change(f"delete {key}\r\n".encode(), [b"DELETED", b"NOT_FOUND"])
        self.ledger.acknowledged[key] = number

    def read(self, connection, keys):
        acknowledged = {key: self.ledger.acknowledged[key] for key in keys}
        must_be_there = {key for key in keys if not self.ledger.may_be_absent[key]}
        found = connection.get(keys)
        for key in keys:
            if key not in found:
                self.count("misses")
                if key in must_be_there and not self.ledger.may_be_absent[key]:
                    self.count("lost")
                continue
            self.count("hits")
            number = int(found[key].split(b" ")[1])
            if found[key] != value_of(key, number) or number > self.ledger.sent[key]:
                raise RuntimeError(f"{key} has a value that was never stored: {found[key][:60]}")
            if number < acknowledged[key]:
                self.count("stale")
