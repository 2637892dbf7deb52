"""Requests for one kind as calls of the Api."""

from typing import Any

from localcluster.base.errors import method_not_allowed
from localcluster.base.hooks import Object, User
from localcluster.base.requests import (
    Request,
    Target,
    decode_body,
    decode_patch,
    delete_options,
    write_options,
)
from localcluster.base.store import Stored
from localcluster.http.discovery import CREATED
from localcluster.http.eventviews import patch_to_core, to_core
from localcluster.rbac.attributes import Attributes
from localcluster.registry.api import Api
from localcluster.registry.subresources import SUCCESS
from localcluster.registry.write_pipeline import Write


class Call:
    """One request for one kind as calls of the Api; each verb returns the code and the value."""

    def __init__(
        self,
        api: Api,
        request: Request,
        target: Target,
        user: User,
        warnings: list[str],
        *,
        converts: bool,
    ) -> None:
        """Create a call from a parsed request.

        `converts` translates events to and from events.k8s.io/v1.
        """
        self._api = api
        self._request = request
        self._target = target
        self._user = user
        self._warnings = warnings
        self._converts = converts

    def verb(self) -> str:
        """Return the verb of the request. Raises StatusError 405."""
        target, method = self._target, self._request.method
        if target.subresource or target.name:
            watches = method == "GET" and is_true(self._request.params.get("watch"))
            verb = "watch" if watches and not target.subresource else _NAMED.get(method, "")
            if method == "POST" and target.subresource in CREATED:
                verb = "create"
        elif method == "GET":
            verb = "watch" if is_true(self._request.params.get("watch")) else "list"
        else:
            verb = {"POST": "create", "DELETE": "deletecollection"}.get(method, "")
        allowed = verb in target.info.verbs or bool(target.subresource and verb)
        if not allowed or (target.subresource in CREATED and verb != "create"):
            raise method_not_allowed()
        return verb

    async def get(self) -> tuple[int, Stored]:
        """Handle GET."""
        target = self._target
        if target.subresource:
            write = Write(target.info, target.namespace, target.name, target.subresource)
            return 200, await self._api.subresources.read(write)
        return 200, self._api.get(target.info, target.name, target.namespace)

    async def create(self) -> tuple[int, Stored]:
        """Handle POST."""
        target = self._target
        stored = await self._api.create(
            target.info,
            self._body(),
            target.namespace,
            name=target.name,
            subresource=target.subresource,
            user=self._user,
            options=write_options(self._request),
            warnings=self._warnings,
        )
        return 201, stored

    async def update(self) -> tuple[int, Stored]:
        """Handle PUT."""
        target, known = self._target, self._known()
        if not known and self._api.pipeline.strategy(target.info).create_on_update:
            self._check_creation()
        stored = await self._api.update(
            target.info,
            self._body(),
            target.namespace,
            name=target.name,
            subresource=target.subresource,
            user=self._user,
            options=write_options(self._request),
            warnings=self._warnings,
        )
        return (200 if known else 201), stored

    async def patch(self) -> tuple[int, Stored]:
        """Handle PATCH."""
        target, known = self._target, self._known()
        kind, patch = decode_patch(self._request, target.info)
        if not known and kind == "apply" and not target.subresource:
            self._check_creation()
        stored = await self._api.patch(
            target.info,
            target.name,
            patch_to_core(patch) if self._converts else patch,
            target.namespace,
            kind=kind,  # type: ignore[arg-type]
            subresource=target.subresource,
            user=self._user,
            options=write_options(self._request, apply=kind == "apply"),
            warnings=self._warnings,
        )
        return (200 if known else 201), stored

    async def delete(self) -> tuple[int, Stored | Object]:
        """Handle DELETE of one object."""
        target = self._target
        removal = await self._api.remove(
            target.info,
            target.name,
            target.namespace,
            user=self._user,
            options=delete_options(self._request),
        )
        if not removal.gone or self._api.pipeline.strategy(target.info).returns_deleted:
            return 200, removal.value
        details = {"name": target.name, "kind": target.info.plural}
        if target.info.group:
            details["group"] = target.info.group
        details["uid"] = removal.value.obj["metadata"]["uid"]
        return 200, {**SUCCESS, "details": details}

    async def deletecollection(self) -> tuple[int, Object]:
        """Handle DELETE of all selected objects."""
        target, params = self._target, self._request.params
        gone = await self._api.delete_collection(
            target.info,
            target.namespace,
            label_selector=params.get("labelSelector", ""),
            field_selector=params.get("fieldSelector", ""),
            user=self._user,
            options=delete_options(self._request),
        )
        meta = {"resourceVersion": str(self._api.store.revision)}
        info = target.info
        items = [one.obj for one in await self._api.converter.views(info, gone)]
        return 200, {
            "kind": info.list_kind,
            "apiVersion": info.api_version,
            "metadata": meta,
            "items": items,
        }

    def _body(self) -> Any:
        body = decode_body(self._request)
        return to_core(body) if self._converts else body

    def _check_creation(self) -> None:
        """Check that the user may create the object that an update would create.

        Raises StatusError 403.
        """
        target = self._target
        info = target.info
        asked = Attributes(
            "create", info.group, info.version, info.plural, "", target.namespace, target.name
        )
        self._api.authorizer.check(self._user, asked)

    def _known(self) -> bool:
        target = self._target
        key = (target.namespace, target.name)
        return self._api.store.get(target.info.collection, key) is not None


_NAMED = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def is_true(text: str | None) -> bool:
    """Return True if a URL parameter is true."""
    return text in {"1", "true", "True", "t"}
