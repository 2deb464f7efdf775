"""Podman runs the images of deploy/ without root, on a read-only file system, and with a seccomp
profile that forbids io_uring. It also runs three servers with a router in front."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import unittest

from servers import LARDER, ROOT, build_reader, wait_until

# run.sh sets it, and runs this script in separate namespaces: networks, mounts and ports are
# private.
STORE = os.environ.get("STORE")
SECCOMP = pathlib.Path("/usr/share/containers/seccomp.json")
IO_URING = ["io_uring_setup", "io_uring_enter", "io_uring_register"]
HARDENED = ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"]


def environment():
    """Writes Podman's configuration: its images are in STORE, and it does not use systemd."""
    nofile = 20000
    pathlib.Path(STORE, "containers.conf").write_text(
        f"""[containers]
default_ulimits = ["nofile={nofile}:{nofile}", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "{STORE}/networks"
"""
    )
    pathlib.Path(STORE, "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{STORE}/images"\nrunroot = "{STORE}/run"\n'
    )
    return os.environ | {
        "CONTAINERS_CONF": f"{STORE}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{STORE}/storage.conf",
    }


def run(*command, fails=False):
    """Runs a command and returns its output. Raises unless it succeeds, or fails as expected."""
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{command}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def podman(*arguments, fails=False):
    return run("podman", *arguments, fails=fails)


def seccomp_profile(name, action):
    """Writes Podman's default profile with this action for io_uring."""
    profile = json.loads(SECCOMP.read_text())
    for rule in profile["syscalls"]:
        rule["names"] = [call for call in rule["names"] if call not in IO_URING]
    profile["syscalls"].append({"names": IO_URING, "action": action, "args": []})
    path = pathlib.Path(STORE, f"{name}.json")
    path.write_text(json.dumps(profile))
    return f"seccomp={path}"


class AdminSocket(http.client.HTTPConnection):
    """HTTP over the admin socket inside a container."""

    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def get(connection, path):
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def tcp():
    return http.client.HTTPConnection("127.0.0.1", 9150, timeout=10)


class Image(unittest.TestCase):
    """A single container of the image, on its default ports."""

    def start(self, *options, arguments=()):
        podman("run", "-d", "--name", "larder", "--network", "host", *options,
               "localhost/larder", *arguments)
        self.addCleanup(podman, "rm", "-f", "-t", "2", "larder")
        wait_until("larderd is ready", self.is_ready)
        return pathlib.Path("/proc", podman("inspect", "-f", "{{.State.Pid}}", "larder"))

    def is_ready(self):
        running = podman("inspect", "-f", "{{.State.Running}}", "larder")
        if running != "true":
            # larderd writes to standard error, which Podman returns separately.
            log = run("sh", "-c", "podman logs larder 2>&1")
            raise AssertionError(f"the container has ended: {log}")
        with contextlib.suppress(OSError):
            return get(tcp(), "/ready")[0] == 200
        return False

    def uses_io_uring(self, process):
        links = [os.readlink(entry) for entry in (process / "fd").iterdir()]
        self.assertTrue(any("eventpoll" in link or "io_uring" in link for link in links), links)
        return any("io_uring" in link for link in links)

    def serves(self):
        run(LARDER, "set", "greeting", "hello")
        self.assertEqual(run(LARDER, "get", "greeting"), "hello")

    def test_hardened_and_without_io_uring_it_serves(self):
        profile = seccomp_profile("forbids", "SCMP_ACT_ERRNO")
        process = self.start(*HARDENED, "--security-opt", profile)
        self.serves()
        self.assertFalse(self.uses_io_uring(process), "seccomp does not forbid io_uring")
        status = dict(
            line.split(":\t", 1) for line in (process / "status").read_text().splitlines()
        )
        self.assertEqual(status["Uid"].split(), ["11211"] * 4)
        self.assertEqual(int(status["CapEff"], 16), 0)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        podman("exec", "larder", "touch", "/usr/local/bin/written", fails=True)

    def test_io_uring_is_used_where_seccomp_allows_it(self):
        profile = seccomp_profile("allows", "SCMP_ACT_ALLOW")
        self.assertTrue(self.uses_io_uring(self.start(*HARDENED, "--security-opt", profile)))
        self.serves()

    def test_tcp_may_probe_and_the_socket_may_do_all(self):
        process = self.start(*HARDENED)
        self.assertEqual(get(tcp(), "/metrics")[0], 200)
        self.assertEqual(get(tcp(), "/api/v1/settings")[0], 403)
        admin = process / "root/run/larder/admin.sock"
        self.assertIn('"full"', get(AdminSocket(admin), "/api/v1/role")[1])
        self.assertEqual(get(AdminSocket(admin), "/api/v1/settings")[0], 200)
        self.assertEqual(admin.stat().st_mode & 0o777, 0o660)

    def test_a_variable_replaces_the_admin_listeners(self):
        self.start(*HARDENED, "-e", "LARDER_ADMIN_LISTEN=127.0.0.1:9150,role=read")
        self.assertEqual(get(tcp(), "/api/v1/settings")[0], 200)

    def test_the_health_check_notices_a_server_that_does_not_answer(self):
        process = self.start(*HARDENED)
        podman("healthcheck", "run", "larder")
        podman("kill", "--signal", "STOP", "larder")
        began = time.monotonic()
        podman("healthcheck", "run", "larder", fails=True)
        self.assertLess(time.monotonic() - began, 20)
        podman("kill", "--signal", "CONT", "larder")
        self.assertTrue(process.exists())

    def test_another_container_reads_in_its_memory(self):
        shared = pathlib.Path(STORE, "shared")
        shared.mkdir()
        build_reader(shared / "localread")
        shutil.chown(shared, 11211, 11211)
        volume = ["-v", f"{shared}:/run/sockets"]
        words = "*,unix[mode=0660,readers]:/run/sockets/larder.sock"
        self.start(*HARDENED, *volume, arguments=["-m", "64", "-l", words])
        self.assertEqual((shared / "larder.sock").stat().st_mode & 0o777, 0o660)
        self.serves()
        before = self.statistic("cmd_get")
        reader = ["podman", "run", "--rm", *HARDENED, *volume, "--user", "11211:11211"]
        reader += ["--entrypoint", "/run/sockets/localread", "localhost/larder"]
        socket_path = "/run/sockets/larder.sock"
        self.assertEqual(run(*reader, socket_path, "greeting"), "hello")
        self.assertEqual(self.statistic("cmd_get"), before)
        run(*reader, socket_path, "farewell", fails=True)

    def statistic(self, name):
        rows = [row.split() for row in run(LARDER, "stats").splitlines()]
        return next(int(row[1]) for row in rows if row and row[0] == name)

    def test_it_stops_at_once_and_with_success(self):
        self.start(*HARDENED)
        self.serves()
        began = time.monotonic()
        podman("stop", "-t", "10", "larder")
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(podman("inspect", "-f", "{{.State.ExitCode}}", "larder"), "0")


class Compose(unittest.TestCase):
    def compose(self, *arguments):
        return run("podman-compose", "-f", str(ROOT / "deploy/compose/compose.yaml"), *arguments)

    def test_three_servers_share_the_keys(self):
        self.addCleanup(self.compose, "down", "-t", "2")
        self.compose("up", "-d", "--no-build")
        names = podman("ps", "--format", "{{.Names}}").split()
        caches = [name for name in names if "cache" in name]
        self.assertEqual((len(caches), len(names)), (3, 4), names)
        keys = [f"key-{number}" for number in range(60)]

        def is_stored():
            with contextlib.suppress(AssertionError):
                run(LARDER, "set", keys[0], "value")
                return True

        wait_until("the router serves", is_stored)
        for key in keys:
            run(LARDER, "set", key, f"value of {key}")
        for key in keys:
            self.assertEqual(run(LARDER, "get", key), f"value of {key}")
        items = {name: self.items(name) for name in caches}
        self.assertEqual(sum(items.values()), len(keys), items)
        self.assertTrue(all(items.values()), items)

    def items(self, name):
        """Returns how many items a server holds."""
        rows = podman("exec", name, "larder", "stats").splitlines()
        return next(int(row.split()[-1]) for row in rows if "curr_items" in row)


def setUpModule():
    if not STORE:
        raise AssertionError("run these tests by deploy/tests/run.sh, which builds the images")


if __name__ == "__main__":
    unittest.main()
