"""Lists as large as a cluster, read page by page. At most one page is in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec

from kube.base.errors import NotFound, TooLarge
from kube.client.client import Client
from kube.client.decoding import decode_deep
from kube.client.meta import Json
from kube.client.resources import Resource

PAGE: Final = 500
"""Objects of one page of a list."""

METADATA: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_LARGEST: Final = 32 * 1024 * 1024
"""Bytes of one page. Beyond it, pages get smaller."""

_object = msgspec.json.Decoder(dict[str, Any])


async def pages(
    client: Client,
    resource: Resource,
    namespace: str | None = None,
    *,
    label_selector: str = "",
    field_selector: str = "",
    metadata_only: bool = False,
) -> AsyncIterator[list[Json]]:
    """Yield the items of a list, a page at a time; none for a kind that is not served.

    A page of too many bytes is requested again with fewer objects. Raises kube errors; Gone if the
    list takes longer than the server keeps its history.
    """
    chosen = {"labelSelector": label_selector, "fieldSelector": field_selector}
    params = {key: text for key, text in chosen.items() if text}
    limit, token = PAGE, ""
    while True:
        try:
            page = await _page(
                client,
                resource.path(namespace),
                params | {"limit": str(limit)} | ({"continue": token} if token else {}),
                METADATA if metadata_only else None,
            )
        except NotFound:
            return
        except TooLarge:
            if limit == 1:
                raise
            # The token stays valid: the next request continues at the same object with fewer.
            limit //= 2
            continue
        yield [item for item in page.get("items") or () if isinstance(item, dict)]
        token = (page.get("metadata") or {}).get("continue") or ""
        if not token:
            return


async def all_of(
    client: Client,
    resource: Resource,
    namespace: str | None = None,
    *,
    most: int,
    label_selector: str = "",
    field_selector: str = "",
) -> list[Json]:
    """Return the first `most` items. Raises kube errors."""
    found: list[Json] = []
    async for page in pages(
        client, resource, namespace, label_selector=label_selector, field_selector=field_selector
    ):
        found += page
        if len(found) >= most:
            break
    return found[:most]


async def _page(client: Client, path: str, params: Mapping[str, str], accept: str | None) -> Json:
    body = await client.request("GET", path, params=params, largest=_LARGEST, accept=accept)
    return decode_deep(_object.decode, body)
