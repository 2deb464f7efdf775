"""The web servers of a site and of a Go module's path, as one HTTP proxy on this machine."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SITE = "site.sample.org"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        address = urlsplit(self.path)
        if address.netloc == SITE:
            path = self.server.folder / address.path.lstrip("/")
        else:
            page = f"{address.netloc}{address.path.rstrip('/')}/index.html"
            path = self.server.folder / "go/import" / page
        if not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


class Web(ThreadingHTTPServer):
    """Answers requests for `SITE` from a folder, and for all other hosts with the pages that lead
    the go command to the site."""

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def end(self):
        self.shutdown()
        self.server_close()
        self.thread.join()
