"""An admission webhook that warns about workloads that do not fit now.

It asks the console's API (docs/fit.md), and needs nothing but Python's standard library. It never
rejects an object: capacity may become free, and the console may be away.
"""

import argparse
import http.client
import json
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

SECONDS = 5.0
"""Patience with the console. The webhook's own timeoutSeconds must be longer."""

LARGEST = 4 * 1024 * 1024
"""Bytes of a review that are read. API servers send less."""


class FitClient:
    """A client of `/api/fit`, logged in with the token in a file, which may be renewed."""

    def __init__(self, server: str, ca_file: str, token_file: str) -> None:
        parts = urlsplit(server)
        self._host, self._port = parts.hostname or "", parts.port or 443
        # The console accepts requests of its own page only, which has this origin.
        self._headers = {"Origin": server.removesuffix(":443"), "Content-Type": "application/json"}
        self._context = ssl.create_default_context(cafile=ca_file)
        self._token_file = token_file
        self._cookie = ""
        self._lock = threading.Lock()

    def fit(self, objects: list[dict[str, Any]], namespace: str) -> dict[str, Any]:
        """Return the result of one workload. Raises OSError and RuntimeError."""
        asked = {"workloads": [{"objects": objects}], "namespace": namespace}
        status, answer = self._post("/api/fit", asked, self._cookie)
        # A session lasts for an hour, and ends when the console restarts.
        if status == 401:
            self._log_in()
            status, answer = self._post("/api/fit", asked, self._cookie)
        if status != 200:
            raise RuntimeError(f"{status}: {answer.get('message', '')}")
        found: dict[str, Any] = answer["workloads"][0]
        return found

    def _log_in(self) -> None:
        # One login at a time: a user has eight sessions, and a new one ends the oldest.
        with self._lock, open(self._token_file, encoding="ascii") as file:
            status, answer = self._post("/api/login", {"token": file.read().strip()})
            if status != 200:
                raise RuntimeError(f"login: {status}: {answer.get('message', '')}")
            self._cookie = answer["cookie"]

    def _post(self, path: str, body: Any, cookie: str = "") -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=SECONDS, context=self._context
        )
        try:
            headers = {**self._headers, "Cookie": cookie}
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            set_cookie = response.getheader("Set-Cookie", "")
            return response.status, {**answer, "cookie": set_cookie.partition(";")[0]}
        finally:
            connection.close()


def reviewed(review: dict[str, Any], client: FitClient) -> dict[str, Any]:
    """Return the AdmissionReview that allows the object, with a warning if it does not fit."""
    request = review["request"]
    response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    try:
        result = client.fit([request["object"]], request.get("namespace") or "default")
    except (OSError, ValueError, RuntimeError) as error:
        sys.stderr.write(f"no answer from the console: {error}\n")
    else:
        if result["fits"] == "no":
            sentences = [root["sentence"] for root in result["roots"] if root["fits"] == "no"]
            # API servers show 256 characters of a warning.
            response["warnings"] = [f"does not fit now: {each}"[:256] for each in sentences[:3]]
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def handler(client: FitClient) -> type[BaseHTTPRequestHandler]:
    """Return the handler of the webhook's requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = min(int(self.headers.get("Content-Length", 0)), LARGEST)
            content = json.dumps(reviewed(json.loads(self.rfile.read(length)), client)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--console", required=True, help="https://HOST[:PORT] of the console")
    parser.add_argument("--ca-file", required=True, help="authority of the console's certificate")
    parser.add_argument("--token-file", required=True, help="token of a ServiceAccount")
    parser.add_argument("--tls", required=True, help="folder with tls.crt and tls.key, to serve")
    parser.add_argument("--port", type=int, default=8443)
    options = parser.parse_args()
    client = FitClient(options.console, options.ca_file, options.token_file)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"{options.tls}/tls.crt", f"{options.tls}/tls.key")
    server = ThreadingHTTPServer(("", options.port), handler(client))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    sys.stdout.write(f"serving on port {server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
