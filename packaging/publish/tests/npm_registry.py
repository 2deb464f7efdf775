"""A registry of npm on this machine, for tests. It keeps packages in memory."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        path = unquote(self.path).lstrip("/")
        packages, files = self.server.packages, self.server.files
        if path in files:
            self.answer(200, files[path])
        elif path in packages:
            self.answer(200, packages[path])
        else:
            self.answer(404, {"error": "Not found"})

    def do_PUT(self):
        """Stores a new version, if the request has the token."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != f"Bearer {self.server.token}":
            self.answer(401, {"error": "the token is wrong"})
            return
        kept = self.server.packages.setdefault(sent["name"], {**sent, "versions": {}})
        for version, manifest in sent["versions"].items():
            if version in kept["versions"]:
                self.answer(403, {"error": "You cannot publish over the previously published"})
                return
            (attached,) = sent["_attachments"].values()
            data = base64.b64decode(attached["data"])
            file = f"files/{len(self.server.files)}.tgz"
            self.server.files[file] = data
            manifest["dist"] = {"shasum": hashlib.sha1(data).hexdigest(),
                                "tarball": f"{self.server.address}{file}"}
            kept["versions"][version] = manifest
        kept.pop("_attachments", None)
        self.server.order.append(sent["name"])
        self.answer(201, {"ok": True})

    def log_message(self, *arguments):
        pass


class Registry(ThreadingHTTPServer):
    """`order` has the names in the order in which they were published."""

    def __init__(self, token):
        super().__init__(("127.0.0.1", 0), Handler)
        self.token, self.packages, self.files, self.order = token, {}, {}, []
        self.address = f"http://127.0.0.1:{self.server_address[1]}/"
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def empty(self):
        for kept in (self.packages, self.files, self.order):
            kept.clear()

    def end(self):
        self.shutdown()
        self.server_close()
        self.thread.join()
