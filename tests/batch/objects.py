"""An object store on the loopback interface that speaks as much of S3 as a run directory needs."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class ObjectServer:
    """`objects` by their paths; one that is not `conditional` replaces what is there, whatever a
    request says. `environ` leads clients to it."""

    def __init__(self, *, conditional: bool = True, host: str = "127.0.0.1") -> None:
        self.objects: dict[str, bytes] = {}
        self.conditional = conditional
        self.lock = threading.Condition()
        handler = type("Bound", (_Handler,), {"store": self})
        self._server = ThreadingHTTPServer((host, 0), handler)
        self.environ = {
            "AWS_ENDPOINT_URL_S3": f"http://{host}:{self._server.server_port}",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        }

    def awaited(self, path: str) -> None:
        """Returns when there is an object."""
        with self.lock:
            self.lock.wait_for(lambda: path in self.objects)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: ObjectServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        path = self._path()
        once = self.headers.get("if-none-match") == "*" and self.store.conditional
        with self.store.lock:
            if once and path in self.store.objects:
                self._answer(412, _error("PreconditionFailed"))
                return
            self.store.objects[path] = body
            self.store.lock.notify_all()
        self._answer(200)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self.store.lock:
            found = self.store.objects.get(self._path())
            names = sorted(self.store.objects)
        if "list-type" in query:
            bucket = unquote(parts.path).rstrip("/") + "/"
            prefix = query.get("prefix", "")
            keys = [name.removeprefix(bucket) for name in names if name.startswith(bucket + prefix)]
            self._answer(200, _listing(prefix, keys))
        elif found is None:
            self._answer(404, _error("NoSuchKey"))
        else:
            self._answer(200, found)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        with self.store.lock:
            self.store.objects.pop(self._path(), None)
        self._answer(204)

    def _path(self) -> str:
        return unquote(urlsplit(self.path).path)

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("etag", '"x"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _error(code: str) -> bytes:
    condition = "<Condition>If-None-Match</Condition>" if code == "PreconditionFailed" else ""
    return f"<Error><Code>{code}</Code><Message>no</Message>{condition}</Error>".encode()


def _listing(prefix: str, keys: list[str]) -> bytes:
    """The objects of one folder, and the folders in it."""
    inner = {key[len(prefix) :].partition("/")[0] for key in keys if "/" in key[len(prefix) :]}
    plain = [key for key in keys if "/" not in key[len(prefix) :]]
    when = "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
    found = [
        f"<Contents><Key>{escape(key)}</Key><Size>1</Size>{when}<ETag>x</ETag></Contents>"
        for key in plain
    ]
    found += [
        f"<CommonPrefixes><Prefix>{escape(prefix + name)}/</Prefix></CommonPrefixes>"
        for name in sorted(inner)
    ]
    head = f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>"
    return f"<ListBucketResult>{head}{''.join(found)}</ListBucketResult>".encode()
