#!/usr/bin/env python3
"""Counts the instructions of larderd per request, without those of the kernel.

A ratio of processor times varies by a tenth on a busy machine. A number of instructions does not:
callgrind counts the same number again, whatever else runs. It is no time, but if it does not grow
then a feature that is off costs nothing. Two runs that differ only in their number of requests are
subtracted, so that start and stop do not count. One client waits for each response, on TCP, with
epoll (Valgrind has no io_uring).

LARDERD names the release build, and BEFORE an older one to compare with.
`make bench NAME=instructions BEFORE=../before/target/release/larderd` sets them.
"""

import glob
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time

FEW, MANY = 2_000, 22_000
KEYS = [b"key:%06d" % number for number in range(64)]
VALUE = b"x" * 100
GETS = [b"get %s\r\n" % key for key in KEYS]
SETS = [b"set %s 0 0 100\r\n%s\r\n" % (key, VALUE) for key in KEYS]
# The requests that are sent in turn, the end of each response, and how often it occurs in one.
WORKLOADS = {
    "get": (GETS, b"END\r\n", 1),
    "16 gets": ([b"".join(GETS[:16])], b"END\r\n", 16),
    "set": (SETS, b"STORED\r\n", 1),
    "16 sets": ([b"".join(SETS[:16])], b"STORED\r\n", 16),
    "mg": ([b"mg %s v t\r\n" % key for key in KEYS], b"x\r\n", 1),
}
USERS = """users = [
    { name = "plain", password = "sesame", rights = "write" },
    { name = "prefix", password = "sesame", rights = "write", prefixes = ["key:"] },
    { name = "rate", password = "sesame", rights = "write", rate = 100000000 },
]
"""


def connect(port, encrypted):
    deadline = time.monotonic() + 60
    while True:
        try:
            stream = socket.create_connection(("127.0.0.1", port), 60)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not encrypted:
        return stream
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(stream)


def ask(stream, request, end, count):
    stream.sendall(request)
    response = b""
    while response.count(end) < count:
        part = stream.recv(1 << 16)
        if not part or b"ERROR" in part:
            sys.exit(f"instructions: {request[:40]} was answered with {response + part}")
        response += part


def total(folder, larderd, options, user, workload, rounds):
    """Returns the instructions of a larderd that serves a number of requests."""
    requests, end, count = workload
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    written = f"{folder}/{time.monotonic_ns()}"
    server = subprocess.Popen(
        [f"{folder}/no_auxv", "valgrind", "--tool=callgrind", f"--callgrind-out-file={written}",
         larderd, "--io=epoll", "-t", "1", "-m", "64", "-u", "root", "-l", "127.0.0.1", "-p",
         str(port), *options],
        stdout=subprocess.DEVNULL, stderr=open(f"{folder}/log", "w", encoding="utf-8"))
    try:
        with connect(port, "-Z" in options) as stream:
            if user:
                login = b"%s sesame" % user.encode()
                ask(stream, b"set login 0 0 %d\r\n%s\r\n" % (len(login), login), b"STORED\r\n", 1)
            ask(stream, b"".join(SETS), b"STORED\r\n", len(SETS))
            for number in range(rounds):
                ask(stream, requests[number % len(requests)], end, count)
        server.terminate()
        server.wait(60)
    finally:
        server.kill()
        server.wait()
    counts = [re.search(r"^(?:totals|summary): (\d+)", open(name, encoding="utf-8").read(), re.M)
              for name in glob.glob(f"{written}*")]
    if not counts or None in counts:
        sys.exit(f"instructions: callgrind wrote no total: {open(f'{folder}/log').read()[-2000:]}")
    return sum(int(found.group(1)) for found in counts)


def per_request(folder, larderd, options, user, workload):
    few, many = (total(folder, larderd, options, user, workload, rounds) for rounds in (FEW, MANY))
    return (many - few) / (MANY - FEW) / workload[2]


def main():
    larderd, before = os.environ["LARDERD"], os.environ.get("BEFORE")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "no_auxv.c")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cc", "-O1", "-Wall", "-Werror", source, "-o", f"{folder}/no_auxv"],
                       check=True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-keyout", f"{folder}/key", "-out", f"{folder}/chain"],
                       check=True, stderr=subprocess.DEVNULL)
        with open(f"{folder}/users", "w", encoding="utf-8", opener=private) as users:
            users.write(USERS)
        tls = ["-Z", "-o", f"ssl_chain_cert={folder}/chain,ssl_key={folder}/key"]
        with_users = ["--users", f"{folder}/users"]
        plain = [("before", before, [], None)] if before else []
        plain += [("now", larderd, [], None)]
        plain += [(user, larderd, with_users, user) for user in ("plain", "prefix", "rate")]
        encrypted = [("TLS before", before, tls, None)] if before else []
        encrypted += [("TLS", larderd, tls, None)]
        columns = plain + encrypted
        print(f"{'':<8}", *(f"{name:>16}" for name, *_ in columns))
        for name, workload in WORKLOADS.items():
            print(f"{name:<8}", end="", flush=True)
            for cases in (plain, encrypted):
                first = None
                for _, binary, options, user in cases:
                    count = per_request(folder, binary, options, user, workload)
                    first = first or count
                    print(f" {count:8,.0f} {first / count:7.3f}", end="", flush=True)
            print()
    print("Instructions of a request, and the ratio of the first column of its kind to it.")


def private(path, flags):
    return os.open(path, flags, 0o600)


if __name__ == "__main__":
    main()
