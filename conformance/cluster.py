"""Requests to the API server, by the official client and a kubeconfig."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kubernetes import config
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from conformance.values.history import Json

_WATCH_SECONDS: Final = 240
"""Seconds after which the API server ends a watch; the recorder then begins another."""
_SILENCE_SECONDS: Final = 300
"""Seconds without a byte after which a request is given up."""
_ACCEPT_SECONDS: Final = 30.0
"""Seconds in which a refused creation is tried again: a webhook may not know a new class yet."""
_REFUSED: Final = frozenset({403, 429, 500, 503})
_NOT_FOUND, _CONFLICT = 404, 409


class Cluster:
    """A cluster. Paths begin with `/api` or `/apis`. Errors are ApiException and HTTPError."""

    def __init__(self, kubeconfig: Path | None, context: str | None = None) -> None:
        file = str(kubeconfig) if kubeconfig else None
        load: Callable[..., ApiClient] = config.new_client_from_config
        self._api = load(file, context, persist_config=False)

    def get(self, path: str, **query: Any) -> Json:
        return self._json("GET", path, query=query)

    def create(self, path: str, body: Json) -> Json:
        """Create an object and return it; one of that name that exists already is kept.

        Tries again for a while if admission refuses it.
        """
        deadline = time.monotonic() + _ACCEPT_SECONDS
        while True:
            try:
                return self._json("POST", path, body)
            except ApiException as error:
                if error.status == _CONFLICT:
                    return self.get(f"{path}/{body['metadata']['name']}")
                if error.status not in _REFUSED or time.monotonic() > deadline:
                    raise
            time.sleep(0.3)

    def delete(self, path: str, **options: Any) -> None:
        """Delete an object, or nothing if it does not exist."""
        try:
            self._json("DELETE", path, options or None)
        except ApiException as error:
            if error.status != _NOT_FOUND:
                raise

    def version(self) -> str:
        return str(self.get("/version")["gitVersion"])

    def watch(self, path: str, version: str, **query: Any) -> Iterator[tuple[str, Json]]:
        """Yield types and objects until the watch ends."""
        more = {"watch": "true", "resourceVersion": version, "timeoutSeconds": _WATCH_SECONDS}
        response = self._send("GET", path, query=query | more)
        rest = b""
        with contextlib.closing(response):
            for chunk in response.stream():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    yield event["type"], event["object"]

    def _json(
        self, method: str, path: str, body: Json | None = None, query: Json | None = None
    ) -> Json:
        response = self._send(method, path, body, query)
        found: Json = json.loads(response.read())
        return found

    def _send(
        self, method: str, path: str, body: Json | None = None, query: Json | None = None
    ) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        request = self._api.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        answer: Any = self._api.call_api(*request, _request_timeout=(10, _SILENCE_SECONDS))
        if not 200 <= answer.status < 300:
            text = answer.read().decode(errors="replace")
            with contextlib.suppress(ValueError, TypeError, KeyError):
                text = json.loads(text)["message"]
            raise ApiException(answer.status, f"{method} {path}: {text}")
        return answer.response


FAILURES: Final = (ApiException, HTTPError, OSError)
"""Errors of a request: the API server refused it, or did not respond."""
