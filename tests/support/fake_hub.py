"""A Hugging Face hub for tests: model information and files over HTTP, with ranges and every fault that a download meets."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "a" * 40


@dataclass
class Hub:
    """files: by name. large: names kept as LFS, with a SHA-256. cut_after: bytes after which a download's connection breaks, once per
    entry;
    corrupt: names that arrive changed; status: of every answer about the model, instead of the answer; error_code: the hub's header."""

    files: dict[str, bytes]
    large: set[str]
    cut_after: list[int] = field(default_factory=list[int])
    corrupt: set[str] = field(default_factory=set[str])
    status: int = 200
    error_code: str = ""
    url: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def siblings(self) -> list[dict[str, Any]]:
        return [self._sibling(name, content) for name, content in self.files.items()]

    def _sibling(self, name: str, content: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob}
        if name in self.large:
            entry["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return entry


@contextmanager
def running(hub: Hub) -> Generator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None: ...

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            hub.asked.append((self.command, self.path, self.headers.get("Range", "")))
            if hub.status != 200:
                self._send(hub.status, b"{}", {"X-Error-Code": hub.error_code}, body)
            elif self.path.startswith("/api/models/"):
                self._send(200, json.dumps({"id": "owner/name", "sha": COMMIT, "siblings": hub.siblings()}).encode(), {}, body)
            elif match := re.fullmatch(r"/[^/]+/[^/]+/resolve/(\w+)/(.+)", self.path.split("?")[0]):
                self._file(match[2], body)
            else:
                self._send(404, b"{}", {"X-Error-Code": "EntryNotFound"}, body)

        def _file(self, name: str, body: bool) -> None:
            content = hub.files[name]
            tag = (
                hashlib.sha256(content).hexdigest()
                if name in hub.large
                else hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            )
            headers = {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            if name in hub.corrupt:
                content = content[:-1] + b"?"
            status, wanted = 200, re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if wanted:
                begin = int(wanted[1])
                status, headers["Content-Range"] = 206, f"bytes {begin}-{len(content) - 1}/{len(content)}"
                content = content[begin:]
            self._send(status, content, headers, body)

        def _send(self, status: int, content: bytes, headers: dict[str, str], body: bool) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if not body:
                return
            if hub.cut_after and len(content) > hub.cut_after[0]:
                self.wfile.write(content[: hub.cut_after.pop(0)])
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(2)
            else:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
