"""Starts larderd and Prometheus for the tests, on free ports of 127.0.0.1."""

import contextlib
import json
import math
import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
LARDERD = os.environ.get("LARDERD", str(BUILT / "larderd"))
LARDER = os.environ.get("LARDER", str(BUILT / "larder"))
USER = pwd.getpwuid(os.getuid()).pw_name
STARTED_SECS_MAX = 20
# Removed when the tests end.
SCRATCH_FOLDER = tempfile.TemporaryDirectory()
SCRATCH = pathlib.Path(SCRATCH_FOLDER.name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, holds, secs=STARTED_SECS_MAX):
    """Waits until the condition holds, and returns its value."""
    deadline = time.monotonic() + secs
    while True:
        if value := holds():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {secs} s")
        time.sleep(0.1)


def stop(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def build_reader(path):
    """Builds localread, which reads a value in the memory of a larderd. Without C, so that it also
    runs in a container."""
    subprocess.run(
        ["go", "build", "-o", str(path), "."],
        check=True,
        cwd=ROOT / "deploy/tests/localread",
        env=os.environ | {"CGO_ENABLED": "0"},
    )


def users():
    """Returns the option for a file with a user."""
    path = SCRATCH / "users"
    path.touch(0o600)
    path.write_text("app:secret\n")
    return ["-Y", str(path)]


def tls(name="cert"):
    """Returns the options for a certificate that is valid for two days, in the file NAME.pem."""
    chain, key = SCRATCH / f"{name}.pem", SCRATCH / f"{name}.key"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    make = [*make.split(), "-subj", "/CN=localhost", "-keyout", str(key), "-out", str(chain)]
    subprocess.run(make, check=True, capture_output=True)
    return ["-Z", "-o", f"ssl_chain_cert={chain},ssl_key={key}"]


def disk(name, mode, size="64m", *more):
    """Returns the options for a disk tier in a directory of this name."""
    path = str(SCRATCH / name)
    return ["--tier-path", path, "--tier-size", size, "--tier-mode", mode, *more]


def origins(server):
    """Returns the option for a near cache of this server. Two names of it count as two origins."""
    return ["--origin", f"127.0.0.1:{server.port},localhost:{server.port}"]


def weights():
    """Returns the option for the file of weights of a near cache, which its test writes."""
    return ["--origin-weights", str(SCRATCH / "weights")]


def cluster(name):
    """Returns the option for a file of servers with this name."""
    path = SCRATCH / name
    path.write_text("127.0.0.1:11211\n")
    return ["--cluster-file", str(path)]


class Larderd:
    """A larderd with an admin listener. Both ports stay the same over restarts."""

    def __init__(self, *arguments):
        self.port, self.admin = free_port(), free_port()
        self.address = f"127.0.0.1:{self.admin}"
        self.command = [LARDERD, "-u", USER, "-l", "127.0.0.1", "-p", str(self.port), "-U", "0"]
        self.command += ["--admin-listen", f"{self.address},role=probe", *arguments]
        self.log = tempfile.TemporaryFile()
        self.streams = []
        self.process = None
        self.start()

    def start(self):
        # Python ignores SIGXFSZ, and the server inherits this. A write beyond the limit on the
        # length of files then fails, as on a broken disk.
        self.process = subprocess.Popen(
            self.command, stdout=self.log, stderr=self.log, restore_signals=False
        )
        try:
            wait_until("larderd is ready", self.is_ready)
        except AssertionError as error:
            self.log.seek(0)
            raise AssertionError(f"{error}: {self.log.read().decode(errors='replace')}") from None

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"larderd ended with {self.process.returncode}")
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://{self.address}/ready", timeout=5).status == 200
        return False

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        self.start()

    def suspend(self):
        """Stops the process as if it hung, until `resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def connect(self):
        """Opens a connection and keeps it open."""
        self.streams.append(socket.create_connection(("127.0.0.1", self.port), timeout=10))
        return self.streams[-1]

    def ask(self, request, end=b"\r\n"):
        """Sends a request on a new connection and returns the answer up to `end`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as stream:
            stream.sendall(request)
            answer = b""
            while not answer.endswith(end):
                piece = stream.recv(65536)
                if not piece:
                    raise AssertionError(f"larderd closed after {answer!r}")
                answer += piece
        return answer

    def store(self, key, length):
        return self.ask(f"set {key} 0 0 {length}\r\n".encode() + b"v" * length + b"\r\n")

    def bench(self, secs, *arguments):
        """Starts the load generator."""
        command = [LARDER, "bench", "--server", f"127.0.0.1:{self.port}", "--seconds", str(secs)]
        return subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL)

    def store_many(self, keys):
        """Stores short values with the numbers `keys`."""
        sets = b"".join(b"set k%d 0 0 1 noreply\r\nv\r\n" % number for number in keys)
        self.ask(sets + b"mn\r\n", b"MN\r\n")

    def hang_up(self):
        for stream in self.streams:
            stream.close()
        self.streams.clear()

    def close(self):
        self.hang_up()
        self.resume()
        stop(self.process)
        self.log.close()


class Prometheus:
    """The real Prometheus with our configuration and rules, but faster: it scrapes and evaluates
    each second, and `shorten` reduces durations."""

    def __init__(self, shorten=None):
        self.folder = tempfile.TemporaryDirectory()
        self.address = f"127.0.0.1:{free_port()}"
        rules = (ROOT / "deploy/prometheus/alerts.yaml").read_text()
        self.write("alerts.yaml", shorten(rules) if shorten else rules)
        self.watch([])
        command = ["prometheus", f"--config.file={self.folder.name}/prometheus.yml"]
        command += [f"--storage.tsdb.path={self.folder.name}/data", "--log.level=warn"]
        self.process = subprocess.Popen(
            [*command, f"--web.listen-address={self.address}"], cwd=self.folder.name
        )
        wait_until("Prometheus is ready", self.is_ready)

    def write(self, name, text):
        pathlib.Path(self.folder.name, name).write_text(text)

    def watch(self, addresses):
        """Writes the configuration with these targets."""
        text = (ROOT / "deploy/prometheus/prometheus.yml").read_text()
        text, intervals = re.subn(r"_interval: \w+", "_interval: 1s", text)
        targets = f"targets: {json.dumps(addresses)}"
        text, lists = re.subn(r"targets: \[.*\]", lambda _: targets, text)
        assert (intervals, lists) == (2, 1), "prometheus.yml is not as this test expects"
        self.write("prometheus.yml", text)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    def is_ready(self):
        assert self.process.poll() is None, f"Prometheus ended with {self.process.returncode}"
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5).status == 200
        return False

    def get(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def numbers(self, expression):
        """Returns the numeric values of an expression."""
        values = [float(row["value"][1]) for row in self.get("query", query=expression)["result"]]
        return [value for value in values if math.isfinite(value)]

    def expressions(self):
        """Returns the name and the expression of each alert, as Prometheus has parsed it."""
        groups = self.get("rules")["groups"]
        return {rule["name"]: rule["query"] for group in groups for rule in group["rules"]}

    def firing(self):
        """Returns the firing alerts as pairs of name and instance."""
        alerts = self.get("alerts")["alerts"]
        fires = [alert["labels"] for alert in alerts if alert["state"] == "firing"]
        return {(labels["alertname"], labels.get("instance")) for labels in fires}

    def close(self):
        stop(self.process)
        self.folder.cleanup()
