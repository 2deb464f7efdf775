"""Debian's WordPress with a private MariaDB, nginx and php-fpm, in a folder in memory."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fpm"))
from website import USER, Site, UnixConnection  # noqa: E402

DROP_IN = HERE.parents[1] / "dropins/wordpress/object-cache.php"
PROGRAM = Path(os.environ.get("WORDPRESS", "/usr/share/wordpress"))
EXTENSIONS = "mysqlnd mysqli ctype dom fileinfo iconv mbstring posix tokenizer xml".split()
PASSWORD = "larder-larder-1"

# A path consists of a site, optionally a blog in it, and a file of WordPress.
LOCATION = """
        client_max_body_size 8m;
        rewrite ^(/.*/)$ $1index.php;
        location ~ ^/(?<site>[a-z]+)/(?:second/)?(?<file>.*\\.php)$ {{
            fastcgi_pass unix:{folder}/fpm.sock;
            fastcgi_param SCRIPT_FILENAME @code@/$file;
            fastcgi_param SCRIPT_NAME $uri;
            fastcgi_param PHP_SELF $uri;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param REMOTE_ADDR 127.0.0.1;
            fastcgi_param SERVER_NAME localhost;
            fastcgi_param SERVER_PORT 80;
            fastcgi_param SERVER_PROTOCOL HTTP/1.1;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param LARDER_SITE $site;
            fastcgi_read_timeout 60s;
        }}
"""


def plain(text):
    """Returns the beginning of a page's text."""
    text = re.sub(r"(?s)<(style|script|title).*?</\1>|<[^>]*>", " ", text)
    return " ".join(text.split())[:1000]


def poll(what, holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: nothing after {seconds} s")
        time.sleep(0.1)


class WordPress:
    """The program, its database, and its sites, without a web server."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="larder-wordpress-", dir="/dev/shm"))
        self.folder.chmod(0o755)
        self.code = self.folder / "code"
        self.sites = self.folder / "sites"
        self.database = None
        try:
            self.lay()
            self.start_database()
        except BaseException:
            self.close()
            raise

    def lay(self):
        shutil.copytree(PROGRAM, self.code, symlinks=True)
        for name in ("wp-config.php", "probe.php", "network.php"):
            shutil.copy(HERE / "site" / name, self.code)
        self.sites.mkdir()

    def start_database(self):
        data, socket = self.folder / "data", self.folder / "database.sock"
        temporary = self.folder / "temporary"
        log = open(self.folder / "database.log", "ab")
        common = ["--no-defaults", f"--user={USER}", f"--datadir={data}",
                  f"--tmpdir={temporary}"]
        data.mkdir()
        temporary.mkdir()
        subprocess.run(["chown", "-R", USER, self.folder], check=True)
        subprocess.run(
            ["mariadb-install-db", *common, "--auth-root-authentication-method=normal",
             "--skip-test-db"], check=True, stdout=log, stderr=log)
        self.database = subprocess.Popen(
            ["/usr/sbin/mariadbd", *common, f"--socket={socket}", "--skip-networking",
             f"--pid-file={self.folder}/database.pid", "--innodb-flush-log-at-trx-commit=0"],
            stdout=log, stderr=log)
        poll("mariadbd", lambda: self.sql("SELECT 1").returncode == 0)

    def sql(self, text, database="mysql"):
        client = ["mariadb", "--no-defaults", "-u", "root",
                  f"--socket={self.folder}/database.sock", "--batch", "--skip-column-names"]
        return subprocess.run([*client, database, "-e", text], capture_output=True, text=True)

    def make(self, name, drop_in=True, **constants):
        """Makes the folder and the database of a site, without installing it."""
        content = self.sites / name
        shutil.copytree(PROGRAM / "wp-content", content, symlinks=True)
        (content / "mu-plugins").mkdir()
        shutil.copy(HERE / "site/queries.php", content / "mu-plugins")
        self.set(name, drop_in, **constants)
        subprocess.run(["chown", "-R", USER, content], check=True)
        self.sql(f"CREATE DATABASE {name}")

    def set(self, name, drop_in=True, **constants):
        """Adds or removes a site's drop-in, and sets constants of wp-config.php."""
        content = self.sites / name
        (content / "constants").write_text(json.dumps(constants))
        if drop_in:
            shutil.copy(DROP_IN, content)
        else:
            (content / DROP_IN.name).unlink(missing_ok=True)

    def warnings(self, name):
        """Returns PHP's warnings, without those about WordPress 6.1 itself."""
        log = self.sites / name / "debug.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        words = ("object-cache.php", "Larder", "Fatal", "Uncaught", "database error")
        return [line for line in lines if any(word in line for word in words)]

    def php(self, name, extension, *command, **ini):
        """Runs PHP as the workers' user, with a site. Returns its output."""
        defines = [f"extension={each}" for each in (*EXTENSIONS, extension)]
        defines += [f"{key.replace('__', '.')}={value}" for key, value in ini.items()]
        php = ["php", "-n", *(word for define in defines for word in ("-d", define))]
        variables = [f"LARDER_SITE={name}", "HTTP_HOST=localhost", f"REQUEST_URI=/{name}/"]
        done = subprocess.run(
            ["runuser", "-u", USER, "--", "env", *variables, *php, *command],
            capture_output=True, text=True, cwd=self.code)
        if done.returncode:
            raise AssertionError(f"{command}: {done.stdout[-3000:]} {done.stderr[-3000:]}")
        return done.stdout + done.stderr

    def serve(self, extension, workers=4, **ini):
        settings = {"larder.memory": "64M", "memory_limit": "256M", "opcache.enable": 0}
        settings.update({name.replace("__", "."): value for name, value in ini.items()})
        location = LOCATION.replace("@code@", str(self.code))
        return Site(extension, workers, settings, EXTENSIONS, application=location)

    def close(self):
        if self.database and self.database.poll() is not None:
            log = (self.folder / "database.log").read_text(errors="replace")
            print(f"mariadbd has ended, {self.database.returncode}:\n{log[-6000:]}")
        elif self.database:
            self.database.terminate()
            try:
                self.database.wait(30)
            except subprocess.TimeoutExpired:
                self.database.kill()
                self.database.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Browser:
    """Requests pages of one site, with the cookies that it sets."""

    def __init__(self, served, site):
        self.served, self.site = served, site
        self.cookies = {}
        self.nonce = None

    def request(self, path, form=None, body=None, headers=None):
        """Returns the status and the text. Follows one redirect after the other."""
        headers = {"Host": "localhost", **(headers or {})}
        target, method = f"/{self.site}/{path}", "GET" if form is None and body is None else "POST"
        if form is not None:
            body = urllib.parse.urlencode(form)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        for _ in range(10):
            headers["Cookie"] = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
            connection = UnixConnection(str(self.served.folder / "http.sock"), 60)
            try:
                connection.request(method, target, body, headers)
                reply = connection.getresponse()
                text = reply.read().decode(errors="replace")
            finally:
                connection.close()
            for cookie in reply.msg.get_all("Set-Cookie") or []:
                name, _, value = cookie.split(";")[0].partition("=")
                self.cookies[name] = value
            if reply.status not in (301, 302, 303):
                return reply.status, text
            parts = urllib.parse.urlsplit(urllib.parse.urljoin(target, reply.msg["Location"]))
            target = parts.path + ("?" + parts.query if parts.query else "")
            method, body = "GET", None
        raise AssertionError(f"{path} redirects for ever, last to {target}")

    def page(self, path="", **query):
        """Returns the text of a page that must exist."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        status, text = self.request(path)
        if status != 200:
            raise AssertionError(f"{self.site}/{path}: {status} {plain(text)}")
        return text

    def install(self, title):
        form = {"weblog_title": title, "user_name": "admin", "admin_password": PASSWORD,
                "admin_password2": PASSWORD, "pw_weak": "on", "admin_email": "admin@example.org",
                "blog_public": "1", "language": ""}
        status, text = self.request("wp-admin/install.php?step=2", form)
        if status != 200 or "Success!" not in text:
            raise AssertionError(f"the installation: {status} {plain(text)}")

    def log_in(self, user="admin", password=PASSWORD):
        self.page("wp-login.php")
        form = {"log": user, "pwd": password, "testcookie": "1", "wp-submit": "Log In"}
        status, text = self.request("wp-login.php", form)
        if status != 200 or "wp-admin-bar" not in text:
            raise AssertionError(f"the login: {status} {plain(text)}")
        self.nonce = self.page("wp-admin/admin-ajax.php", action="rest-nonce")
        return text

    def rest(self, route, **data):
        """Calls the REST API: reads, or with `data` writes."""
        headers = {"Content-Type": "application/json"}
        if self.nonce:
            headers["X-WP-Nonce"] = self.nonce
        route, _, query = route.partition("?")
        path = f"index.php?rest_route=/wp/v2/{route}" + ("&" + query if query else "")
        status, text = self.request(path, body=json.dumps(data) if data else None, headers=headers)
        if status not in (200, 201):
            raise AssertionError(f"{route}: {status} {plain(text)}")
        return json.loads(text)

    def call(self, *calls):
        """Calls functions in one request: `(name, argument, …)` each. Returns the results."""
        calls = json.dumps([[name, arguments] for name, *arguments in calls])
        status, text = self.request("probe.php", {"calls": calls})
        try:
            return json.loads(text)
        except ValueError:
            raise AssertionError(f"{calls[:500]}: {status} {plain(text)}") from None

    def queries(self, path="", **query):
        """Returns the number of queries from the end of a page."""
        text = self.page(path, **query)
        found = re.search(r"<!-- queries: (\d+) -->", text)
        if not found:
            raise AssertionError(f"{path} {query} has no end: {text[-500:]}")
        return int(found[1])

