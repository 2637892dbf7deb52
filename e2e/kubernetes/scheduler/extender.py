"""A scheduler extender that records the nodes that passed the filters, and rejects all of them.

kube-scheduler calls it after its own filters, so the recorded nodes are their result. No pod is
bound, unless the extender is configured to accept pods.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class Extender:
    """A server on loopback, as a context manager; `recorded` has the last result by pod UID.

    It rejects no node for pods whose names begin with `accepts`, if that is set.
    """

    def __init__(self) -> None:
        self.recorded: dict[str, frozenset[str]] = {}
        self.accepts = ""
        recorded, extender = self.recorded, self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the method name that http.server requires
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                names = body["NodeNames"] or []
                recorded[body["Pod"]["metadata"]["uid"]] = frozenset(names)
                start = extender.accepts
                accepted = start and body["Pod"]["metadata"]["name"].startswith(start)
                kept = names if accepted else []
                failed = {} if accepted else dict.fromkeys(names, "noted")
                answer = json.dumps({"NodeNames": kept, "FailedNodes": failed}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Do nothing: requests are recorded, not logged."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
