"""Runs a server in separate cgroups, and loads on it. Cgroups of version 1 or 2; needs root."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path


def root_of(controller):
    """Returns the folder of this process's cgroup for a controller, and True for version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path(f"/sys/fs/cgroup/{controller}{path}"), False
    return Path("/sys/fs/cgroup"), True


def memory(mebibytes):
    """Limits the memory of a server, including its pages in the page cache."""
    _, is_v2 = root_of("memory")
    return "memory", {"memory.max" if is_v2 else "memory.limit_in_bytes": str(mebibytes << 20)}


def disk(of, reads_per_second=None, bytes_written_per_second=None):
    """Limits the rates of the disk that contains a folder."""
    device = os.stat(of).st_dev
    device = f"{os.major(device)}:{os.minor(device)}"
    _, is_v2 = root_of("blkio")
    limits = {"riops": reads_per_second, "wbps": bytes_written_per_second}
    limits = {name: value for name, value in limits.items() if value is not None}
    if is_v2:
        words = " ".join(f"{name}={value}" for name, value in limits.items())
        return "blkio", {"io.max": f"{device} {words}"}
    files = {"riops": "blkio.throttle.read_iops_device", "wbps": "blkio.throttle.write_bps_device"}
    return "blkio", {files[name]: f"{device} {value}" for name, value in limits.items()}


class Server:
    """A server on a free port. `limits` are results of the functions above."""

    def __init__(self, command, *limits):
        self.groups = []
        for controller, files in limits:
            root, _ = root_of(controller)
            group = root / f"larder-bench-{os.getpid()}-{controller}"
            group.mkdir()
            self.groups.append(group)
            for name, text in files.items():
                (group / name).write_text(text)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        join = "".join(f"echo $$ > {group}/cgroup.procs && " for group in self.groups)
        self.process = subprocess.Popen(
            ["sh", "-c", join + 'exec "$@"', "sh", *command, "-l", "127.0.0.1", "-p",
             str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 20
        while True:
            try:
                # A store responds with an error during recovery.
                with socket.create_connection(("127.0.0.1", self.port)) as connection:
                    connection.sendall(b"get none\r\n")
                    if connection.recv(100) == b"END\r\n":
                        return
                    raise OSError
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    self.stop()
                    sys.exit(f"{command[0]} does not listen")
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def cpu_secs(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def load(self, *arguments):
        """Runs `larder bench`. Returns its counts, and the server's processor time."""
        before = self.cpu_secs()
        ended = subprocess.run(
            [os.environ["LARDER"], "bench", "--server", f"127.0.0.1:{self.port}", "--json",
             *map(str, arguments)],
            stdout=subprocess.PIPE, check=False)
        shown = json.loads(ended.stdout)
        if shown["wrong_values"]:
            sys.exit("the server returned wrong values")
        shown["cpu_secs"] = self.cpu_secs() - before
        return shown

    def memory_mib(self):
        """Returns the largest memory of the server, including the pages of files."""
        for group in self.groups:
            for name in ("memory.max_usage_in_bytes", "memory.peak"):
                if (group / name).exists():
                    return int((group / name).read_text()) >> 20
        return 0

    def stop(self):
        self.process.terminate()
        self.process.wait()
        for group in self.groups:
            group.rmdir()
