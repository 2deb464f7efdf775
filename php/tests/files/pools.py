"""php-fpm with pools of several users, and a client that runs PHP code in them."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

FPM = shutil.which("php-fpm") or next(
    (path for path in ("/usr/sbin/php-fpm8.%d" % minor for minor in range(1, 6)) if os.path.exists(path)), None)


class Pools:
    """php-fpm with larder.so. `users` has the user of each pool, `settings` are ini keys, `admin`
    has the ini keys of single pools, and `jails` names the pools whose root is the folder."""

    def __init__(self, extension, users, settings, workers=3, admin=None, jails=()):
        self.extension, self.users, self.workers = extension, users, workers
        self.admin, self.jails = admin or {}, jails
        self.folder = tempfile.mkdtemp(prefix="larder-pools-")
        os.chmod(self.folder, 0o755)
        with open(self.folder + "/run.php", "w") as script:
            script.write("<?php eval(file_get_contents('php://input'));")
        self.configure(settings)
        log = open(self.folder + "/output", "w")
        self.process = subprocess.Popen(
            [FPM, "-n", "-F", "-O", "-R", "-y", self.folder + "/fpm.conf", "-c", self.folder + "/php.ini"],
            stdout=log, stderr=log)
        self.wait()

    def configure(self, settings):
        """Writes the settings. php-fpm reads them at a reload."""
        pools = "[global]\nerror_log=%s/log\n" % self.folder
        for name, user in self.users.items():
            pools += (
                "[%s]\nuser=%s\ngroup=%s\nlisten=%s/%s\nlisten.mode=0666\npm=static\npm.max_children=%d\n"
                "catch_workers_output=yes\n" % (name, user[0], user[1], self.folder, name, self.workers))
            if name in self.jails:
                pools += "chroot=%s\nchdir=/\n" % self.folder
            for setting in self.admin.get(name, {}).items():
                pools += "php_admin_value[%s]=%s\n" % setting
        with open(self.folder + "/fpm.conf", "w") as file:
            file.write(pools)
        ini = {"extension": self.extension, "log_errors": 1, "display_errors": 1, "html_errors": 0, **settings}
        with open(self.folder + "/php.ini", "w") as file:
            file.write("extension=posix\n" + "".join('%s="%s"\n' % pair for pair in ini.items()))

    def wait(self):
        for _ in range(200):
            try:
                return [self.run("echo 1;", pool) for pool in self.users]
            except OSError:
                time.sleep(0.05)
        raise SystemExit("php-fpm does not serve:\n" + self.output())

    def output(self):
        texts = []
        for name in ("output", "log"):
            if os.path.exists(self.folder + "/" + name):
                texts.append(open(self.folder + "/" + name).read())
        return "".join(texts)

    def reload(self):
        """Reloads php-fpm, and waits until all workers are new."""
        before = {self.run("echo getmypid();", pool) for pool in self.users}
        self.process.send_signal(signal.SIGUSR2)
        for _ in range(200):
            time.sleep(0.05)
            try:
                if not before & {self.run("echo getmypid();", pool) for pool in self.users}:
                    return
            except OSError:
                pass
        raise SystemExit("php-fpm does not reload:\n" + self.output())

    def run(self, code, pool="www"):
        """Runs code in a worker, and returns its output."""
        code = code.encode()
        parameters = {
            "SCRIPT_FILENAME": ("" if pool in self.jails else self.folder) + "/run.php", "REQUEST_METHOD": "POST",
            "CONTENT_LENGTH": str(len(code)), "CONTENT_TYPE": "text/plain"}
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(self.folder + "/" + pool)
            body = b"".join(
                struct.pack(">II", len(k) | 1 << 31, len(v) | 1 << 31) + k.encode() + v.encode()
                for k, v in parameters.items())
            client.sendall(
                record(1, struct.pack(">HB5x", 1, 0)) + record(4, body) + record(4, b"")
                + record(5, code) + record(5, b""))
            return answer(client).split("\r\n\r\n", 1)[1]

    def run_all(self, code, pool="www"):
        """Runs code in all workers of a pool: each request waits, so that none serves two."""
        import concurrent.futures
        with concurrent.futures.ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(
                lambda _: self.run("usleep(200000); " + code, pool), range(self.workers)))

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)


def record(kind, body):
    return struct.pack(">BBHHBx", 1, kind, 1, len(body), 0) + body


def answer(client):
    """Returns the output of a request."""
    stream, output = client.makefile("rb"), b""
    while True:
        head = stream.read(8)
        if len(head) < 8:
            raise OSError("the worker ended")
        _, kind, _, length, padding = struct.unpack(">BBHHBx", head)
        body = stream.read(length + padding)[:length]
        if kind == 6:
            output += body
        elif kind == 3:
            return output.decode()


def cli(extension, user, settings, code):
    """Runs code in a CLI of a user."""
    command = ["setpriv", "--reuid", user[0], "--regid", user[1], "--clear-groups", "php", "-n",
               "-d", "extension=" + extension, "-d", "display_errors=1", "-d", "html_errors=0"]
    for name, value in settings.items():
        command += ["-d", "%s=%s" % (name, value)]
    return subprocess.run(command + ["-r", code], capture_output=True, text=True, check=False).stdout.strip()


def cli_begin(extension, user, settings, code):
    """Starts such a CLI, and waits for its first output."""
    command = ["setpriv", "--reuid", user[0], "--regid", user[1], "--clear-groups", "php", "-n",
               "-d", "extension=" + extension]
    for name, value in settings.items():
        command += ["-d", "%s=%s" % (name, value)]
    process = subprocess.Popen(command + ["-r", code], stdout=subprocess.PIPE, text=True)
    process.stdout.read(1)
    return process
