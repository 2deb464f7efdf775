"""A larderd with TCP clients and local readers, started by the files of packaging/debian/: by the
service, and by systemd-socket-activate with the sockets of the socket unit. A local reader reads a
value that a TCP client stored, in the memory."""

import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

from servers import LARDER, LARDERD, ROOT, SCRATCH, USER
from servers import build_reader, free_port, stop, wait_until

UNITS = ROOT / "packaging/debian"
READER = SCRATCH / "localread"


def lines_of(unit, name):
    """Returns the values of a setting of a unit, also of one that is commented out."""
    return re.findall(rf"^#?{name}=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)


class Readers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.socket = self.folder / "larder.sock"
        self.port = free_port()

    def start(self, command):
        log = open(self.folder / "log", "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen(command, stdout=log, stderr=log)
        self.addCleanup(stop, process)

    def tool(self, subcommand, *arguments):
        command = [LARDER, subcommand, *arguments, "--server", f"127.0.0.1:{self.port}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        log = (self.folder / "log").read_text()
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}{log}")
        return done.stdout

    def read(self, key):
        """Returns the exit code, the output and the errors of localread."""
        command = [READER, self.socket, key]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        return done.returncode, done.stdout, done.stderr

    def request_count(self):
        return int(re.search(r"cmd_get\s+(\d+)", self.tool("stats"))[1])

    def check_readers(self):
        self.tool("set", "greeting", "hello")
        before = self.request_count()
        self.assertEqual(self.read("greeting"), (0, "hello\n", ""))
        self.assertEqual(self.request_count(), before)
        self.assertEqual(self.read("farewell")[0], 1)

    def test_the_service_serves_tcp_clients_and_local_readers(self):
        [command] = lines_of("larderd.service", "ExecStart")
        program, option, _ = shlex.split(command)
        self.assertEqual((program, option), ("/usr/bin/larderd", "--config"))
        config = self.folder / "larderd.toml"
        listen = f"127.0.0.1:{self.port},unix[mode=0660,readers]:{self.socket}"
        config.write_text(f'listen = "{listen}"\nuser = "{USER}"\n')
        self.start([LARDERD, option, str(config)])
        wait_until("larderd listens", self.socket.exists)
        self.assertEqual(self.socket.stat().st_mode & 0o777, 0o660)
        self.tool("ping", "--wait", "10")
        self.check_readers()

    def test_the_sockets_of_systemd_serve_tcp_clients_and_local_readers(self):
        streams = lines_of("larderd.socket", "ListenStream")
        self.assertEqual(streams, ["127.0.0.1:11211", "/run/larder.sock"])
        here = {"127.0.0.1:11211": f"127.0.0.1:{self.port}", "/run/larder.sock": str(self.socket)}
        sockets = [f"--listen={here[stream]}" for stream in streams]
        words = f"127.0.0.1,unix[mode=0660,readers]:{self.socket}"
        self.start(["systemd-socket-activate", *sockets, LARDERD, "-u", USER, "-l", words])
        wait_until("systemd listens", self.socket.exists)
        self.tool("ping", "--wait", "10")
        self.check_readers()

    def test_a_socket_without_the_word_admits_no_readers(self):
        listen = f"127.0.0.1:{self.port},unix:{self.socket}"
        self.start([LARDERD, "-u", USER, "-l", listen])
        wait_until("larderd listens", self.socket.exists)
        self.tool("set", "greeting", "hello")
        self.assertEqual(self.read("greeting")[:2], (1, ""))


def setUpModule():
    build_reader(READER)


if __name__ == "__main__":
    unittest.main()
