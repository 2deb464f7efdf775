"""MediaWiki with SQLite, whose object cache is the extension (`CACHE_ACCEL`)."""

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from website import USER, Site

FOLDER = Path("/usr/share/mediawiki")
EXTENSIONS = "calendar ctype dom fileinfo iconv intl mbstring pdo pdo_sqlite xml xmlreader".split()

LOCATION = """
        location ~ ^/wiki/(.*)$ {{
            fastcgi_pass unix:{folder}/fpm.sock;
            fastcgi_param SCRIPT_FILENAME /usr/share/mediawiki/$1;
            fastcgi_param SCRIPT_NAME /wiki/$1;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param REMOTE_ADDR 127.0.0.1;
            fastcgi_param SERVER_NAME localhost;
            fastcgi_param SERVER_PORT 80;
            fastcgi_param SERVER_PROTOCOL HTTP/1.1;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param MW_CONFIG_FILE @settings@;
            fastcgi_read_timeout 60s;
        }}
"""


@contextlib.contextmanager
def installed(module):
    """Installs a wiki, and serves it with two workers. Yields the site."""
    folder = Path(tempfile.mkdtemp(prefix="larder-wiki-", dir="/dev/shm"))
    try:
        install(folder)
        location = LOCATION.replace("@settings@", str(folder / "LocalSettings.php"))
        with Site(module, workers=2, more=EXTENSIONS, application=location) as site:
            yield site
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install(folder):
    (folder / "data").mkdir()
    command = ["php", "-d", "memory_limit=256M", FOLDER / "maintenance/install.php"]
    settings = {"dbtype": "sqlite", "dbpath": folder / "data", "confpath": folder,
                "scriptpath": "/wiki", "server": "http://localhost", "pass": "larder-larder-1"}
    for name, value in settings.items():
        command += [f"--{name}", value]
    subprocess.run([*command, "Larder", "admin"], check=True, stdout=subprocess.DEVNULL)
    with open(folder / "LocalSettings.php", "a", encoding="utf-8") as config:
        config.write("$wgMainCacheType = CACHE_ACCEL;\n$wgShowExceptionDetails = true;\n")
    subprocess.run(["chown", "-R", USER, folder], check=True)
