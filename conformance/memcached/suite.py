#!/usr/bin/env python3
"""memcached's own test suite (t/*.t of Debian's source package) against larderd.

Every file runs as in memcached's source tree, with larderd as `memcached-debug`, and with a timeout.
The result is compared with expected.toml; a worse result fails the run. Without arguments all files
run; see --help. conformance/tier.sh runs the suite with a disk tier, conformance/near.sh through a
near cache.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import expectations  # noqa: E402

VERSION = "1.6.18"
TIMEOUT_SECS = 90
# The tests choose a free port and start a server on it a moment later. A connection of another file
# can take the port in between.
PORT_TRIES = 3
PORT_TAKEN = "Address already in use"
# Some names of checks contain values of half a megabyte.
NAME_CHARS = 80
ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIP = ROOT / ".ci/skip"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# The suite was written for 1.6.18. If responses of 1.6.18 and 1.6.45 contradict each other, this
# switch selects those of 1.6.18. It also enables setting the clock, as in memcached's debug build.
SWITCH = "answers_as=1.6.18,debugtime"
# binary-sasl stores this password in a SASL database, larderd reads it from a file.
PASSWORD = "testuser@memcached.realm:testpass\n"
# This file uses memcached's usual port.
ON_USUAL_PORT = "issue_67"
USUAL_PORT = 11211
# The client in this file does not support TLS.
WITHOUT_TLS = "binary-sasl"


def fail(text):
    sys.exit(f"memcached's suite: {text}")


def fetch_sources():
    """Returns the folder with memcached's source tree and the built `timedrun`."""
    sources = TARGET / "clients" / f"memcached-{VERSION}"
    subprocess.run([ROOT / "conformance/debian_source.sh", "memcached", VERSION, sources], check=True)
    timedrun = sources / "timedrun"
    if not timedrun.exists():
        subprocess.run(["cc", "-w", "-O1", "-o", timedrun, sources / "timedrun.c"], check=True)
    return sources


def has_switch(larderd):
    """True if this larderd accepts the switch."""
    return subprocess.run([larderd, "-o", SWITCH, "-h"], capture_output=True).returncode == 0


def prepare(folder, sources, larderd):
    """Makes `folder` the build directory that the tests expect."""
    shutil.copytree(sources / "t", folder / "t")
    (folder / "doc").symlink_to(sources / "doc")
    (folder / "timedrun").symlink_to(sources / "timedrun")
    switch = f" -o {SWITCH}" if has_switch(larderd) else ""
    passwords = folder / "passwords"
    passwords.write_text(PASSWORD)
    wrapper = folder / "memcached-debug"
    wrapper.write_text(f'#!/bin/sh\nexport MEMCACHED_SASL_PWDB="{passwords}"\nexec "{larderd}"{switch} "$@"\n')
    wrapper.chmod(0o755)


def run_file(folder, name, tls):
    """Runs t/NAME.t and returns its result. Repeats the run if another process took its port."""
    for _ in range(PORT_TRIES):
        result = run_once(folder, name, tls)
        if PORT_TAKEN not in result.errors:
            break
    return result


def run_once(folder, name, tls):
    """Runs t/NAME.t once."""
    environment = dict(os.environ, RUN_SASL_TESTS="1")
    if tls:
        environment["SSL_TEST"] = "1"
    began = time.monotonic()
    # Files, not pipes: a server that outlives its file would hold a pipe open. memcached's timedrun
    # leaves its server running if a signal ends it before it handles signals.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        # A separate session, so that a server that outlives the test can be killed with it.
        with subprocess.Popen(
            ["perl", f"t/{name}.t"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        ) as process:
            timed_out = False
            try:
                process.wait(timeout=TIMEOUT_SECS)
            except subprocess.TimeoutExpired:
                timed_out = True
            end_session(process.pid)
            process.wait()
        output, errors = map(read_text, (output, errors))
    secs = time.monotonic() - began
    return read_results(output, errors, timed_out or process.returncode >= 0x80, secs)


def read_text(file):
    """Returns the contents of a file to which a process has written."""
    file.seek(0)
    return file.read().decode("latin-1")


def end_session(leader):
    """Kills the rest of a process group."""
    for which in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(leader, which)
        except ProcessLookupError:
            return
        time.sleep(0.2)


def read_results(output, errors, ended_early, secs):
    """Parses the lines of the Test Anything Protocol."""
    checks, differs, plan, skipped = 0, [], None, None
    for line in output.splitlines():
        if check := re.match(r"(not )?ok\b *(\d*) *-? *(.*)", line):
            checks += 1
            if check[1]:
                differs.append(check[3][:NAME_CHARS] or f"#{check[2]}")
        elif header := re.match(r"1\.\.(\d+)(?: *# *skip *(.*))?", line, re.IGNORECASE):
            plan, skipped = int(header[1]), header[2]
    stops = ended_early or (skipped is None and (plan is None or checks < plan))
    return expectations.Result(checks, differs, stops, skipped, secs, errors)


def refuse_taken_port():
    """Checks memcached's usual port: issue_67 starts servers on it, and fails without a reason if
    it is taken."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", USUAL_PORT)) == 0:
            fail(f"port {USUAL_PORT} is taken: {ON_USUAL_PORT} needs it. Stop the process that listens there")


def run_all(names, arguments, expected):
    """Runs the files and yields (name, result) as they end, the long ones first."""
    if ON_USUAL_PORT in names:
        refuse_taken_port()
    sources = fetch_sources()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prepare(folder, sources, arguments.larderd)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            runs = {
                pool.submit(run_file, folder, name, arguments.tls or expected[name].tls): name
                for name in sorted(names, key=lambda name: -expected[name].secs)
            }
            for run in concurrent.futures.as_completed(runs):
                yield runs[run], run.result()


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names of files without .t (default: all files)")
    parser.add_argument("--quick", action="store_true", help="only files of class A that take a few seconds")
    parser.add_argument("--tls", action="store_true", help="run the files over TLS")
    parser.add_argument("--jobs", type=int, default=4, help="number of files that run at the same time (they sleep most of the time)")
    parser.add_argument("--bless", action="store_true", help="write the results to expected.toml")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/conformance.md, and run no files")
    parser.add_argument("--errors", action="store_true", help="show the stderr of each file")
    larderd = os.environ.get("LARDERD", TARGET / "release" / "larderd")
    parser.add_argument("--larderd", type=pathlib.Path, default=larderd, help="the binary (default: LARDERD)")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    expected = expectations.read()
    if arguments.docs:
        return expectations.write_docs(expected)
    if not arguments.bless and not expectations.docs_are_current(expected):
        fail("docs/conformance.md does not match expected.toml: run `make docs`")
    if not os.access(arguments.larderd, os.X_OK):
        fail(f"no larderd at {arguments.larderd}: run `make build` or set LARDERD")
    arguments.larderd = arguments.larderd.resolve()
    if table := os.environ.get("CONTRADICTIONS"):
        expectations.with_contradictions(expected, table, os.environ.get("LARDER_TIER"))
    names = arguments.names or [name for name, file in expected.items() if not arguments.quick or file.is_quick()]
    if arguments.tls:
        names = [name for name in names if name != WITHOUT_TLS]
    if unknown := [name for name in names if name not in expected]:
        fail(f"expected.toml has no file {unknown[0]}.t")
    worse = checks = 0
    for name, result in run_all(names, arguments, expected):
        checks += result.checks - len(result.differs)
        complaint = expected[name].complaint_about(result)
        worse += complaint is not None
        print(f"{name:24}{result.secs:6.1f} s  {result}", flush=True)
        if result.skipped is not None:
            subprocess.run([SKIP, f"memcached_suite {name}", result.skipped], check=True)
        if complaint and not arguments.bless:
            print(f"    WORSE than expected: {complaint}", flush=True)
        if arguments.errors or (complaint and not arguments.bless):
            print("".join(f"    | {line}\n" for line in result.errors.splitlines()[:40]), end="")
        if arguments.bless:
            expected[name].learn(result)
    if arguments.bless:
        expectations.write(expected)
        expectations.write_docs(expected)
        return
    print(f"memcached_suite: {len(names) - worse} passed, {worse} failed, {checks} checks")
    sys.exit(worse > 0)


if __name__ == "__main__":
    main()
