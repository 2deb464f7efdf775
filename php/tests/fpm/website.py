"""nginx in front of php-fpm, with one extension loaded, in a separate folder."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse
from pathlib import Path

PAGES = Path(__file__).parent / "pages"
PHP_FPM = shutil.which("php-fpm8.2", path=os.environ["PATH"] + ":/usr/sbin")
NGINX = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
USER = "www-data"

NGINX_CONF = """
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
worker_processes 1;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/nginx;
    proxy_temp_path {folder}/nginx;
    fastcgi_temp_path {folder}/nginx;
    uwsgi_temp_path {folder}/nginx;
    scgi_temp_path {folder}/nginx;
    server {{
        listen unix:{folder}/http.sock;
        location / {{
            fastcgi_pass unix:{folder}/fpm.sock;
            fastcgi_param SCRIPT_FILENAME {pages}$uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_read_timeout 60s;
        }}
        {application}
    }}
}}
"""

POOL = """
[global]
error_log = {folder}/fpm.log
daemonize = no
[www]
listen = {folder}/fpm.sock
listen.mode = 0666
listen.backlog = 4096
user = {user}
group = {user}
pm = static
pm.max_children = {workers}
catch_workers_output = yes
decorate_workers_output = no
{pool}
"""


class Site:
    """php-fpm and nginx. `ini` are settings of PHP, `more` are further extensions, `pool` are lines
    of the pool, and `application` is a part of nginx's configuration."""

    def __init__(
        self, extension, workers=4, ini=None, more=(), pool="", chroot=False, application=""
    ):
        self.folder = Path(tempfile.mkdtemp(prefix="larder-fpm-", dir="/dev/shm"))
        self.folder.chmod(0o755)
        (self.folder / "nginx").mkdir()
        shutil.copytree(PAGES, self.folder / "pages")
        pages = "/pages" if chroot else f"{self.folder}/pages"
        if chroot:
            pool += f"\nchroot = {self.folder}\nchdir = /\n"
        extensions = [("extension", name) for name in (*more, extension)]
        settings = [*extensions, ("apc.enabled", 1), *(ini or {}).items()]
        self.defines = [word for name, value in settings for word in ("-d", f"{name}={value}")]
        self.write("fpm.conf", POOL, user=USER, workers=workers, pool=pool)
        application = application.format(folder=self.folder)
        self.write("nginx.conf", NGINX_CONF, pages=pages, application=application)
        self.log = self.folder / "fpm.log"
        self.fpm = self.start(
            [PHP_FPM, "-n", *self.defines, "-F", "-R", "-y", f"{self.folder}/fpm.conf"]
        )
        self.nginx = self.start(
            [NGINX, "-p", self.folder, "-c", f"{self.folder}/nginx.conf", "-g", "daemon off;"]
        )
        self.wait_until_up()

    def write(self, name, text, **values):
        (self.folder / name).write_text(text.format(folder=self.folder, **values), encoding="utf-8")

    def start(self, command):
        output = open(self.folder / "output.log", "ab")
        return subprocess.Popen(command, stdout=output, stderr=output)

    def wait_until_up(self):
        for _ in range(200):
            try:
                if self.get("pid.php").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit(f"php-fpm does not answer:\n{self.logs()}")

    def logs(self):
        files = [self.folder / name for name in ("output.log", "fpm.log", "nginx.log")]
        return "\n".join(f.read_text(errors="replace")[-3000:] for f in files if f.exists())

    def get(self, page, timeout=30, **query):
        """Requests a page of the folder `pages`. Returns its status and text."""
        return fetch(self.folder / "http.sock", f"/{page}?{urllib.parse.urlencode(query)}", timeout)

    def workers(self):
        """Returns the process ids of the workers."""
        children = Path(f"/proc/{self.fpm.pid}/task/{self.fpm.pid}/children").read_text()
        return [int(child) for child in children.split()]

    def reload(self):
        """Makes php-fpm execute itself again, like `systemctl reload`."""
        before = set(self.workers())
        self.fpm.send_signal(signal.SIGUSR2)
        deadline = time.monotonic() + 20
        while set(self.workers()) & before or not self.workers():
            if time.monotonic() > deadline:
                raise SystemExit(f"php-fpm does not reload:\n{self.logs()}")
            time.sleep(0.05)
        self.wait_until_up()

    def close(self):
        for process in (self.nginx, self.fpm):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Reply:
    """The status and the text of a page."""

    def __init__(self, status, text):
        self.status = status
        self.text = text


def fetch(path, target, timeout):
    connection = UnixConnection(str(path), timeout)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        return Reply(response.status, response.read().decode(errors="replace"))
    finally:
        connection.close()


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)
