"""Send the cases in data/cases.yaml to a real API server and record its responses.

`python -m localcluster.tests.schemas.record SERVER TOKEN`
"""

import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any

import aiohttp
import yaml

CASES = Path(__file__).parent / "data" / "cases.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crd(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a definition whose objects have a spec of that schema."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.cases.muster.dev"},
        "spec": {
            "group": "cases.muster.dev",
            "scope": "Namespaced",
            "names": {"plural": f"{name}s", "kind": name.capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}
                    },
                }
            ],
        },
    }


class EventRecorder:
    """One session with the server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any, list[str]]:
        async with self.session.request(method, path, json=body) as answer:
            said = {} if answer.status == 404 else await answer.json()
            return answer.status, said, answer.headers.getall("Warning", [])

    async def record(self, number: int, case: dict[str, Any]) -> dict[str, Any]:
        name = f"case{number}"
        status, body, _ = await self.send("POST", CRDS, crd(name, case["schema"]))
        if status != 201:
            return {"refused": _causes(body)}
        path = f"/apis/cases.muster.dev/v1/namespaces/default/{name}s"
        try:
            while (await self.send("GET", path))[0] != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            return await self.objects(path, name, case)
        finally:
            await self.send("DELETE", f"{CRDS}/{name}s.cases.muster.dev")

    async def objects(self, path: str, name: str, case: dict[str, Any]) -> dict[str, Any]:
        obj = {
            "apiVersion": "cases.muster.dev/v1",
            "kind": name.capitalize(),
            "metadata": {"name": "x"},
            "spec": case.get("create", {}),
        }
        query = "?fieldValidation=Warn"
        status, body, warnings = await self.send("POST", path + query, obj)
        if status == 201 and "update" in case:
            body["spec"] = case["update"]
            status, body, warnings = await self.send("PUT", f"{path}/x{query}", body)
        if status not in {200, 201}:
            return {"causes": _causes(body)}
        want = {"spec": body["spec"]}
        unknown = [text.split('"', 1)[1][:-1].replace('\\"', '"') for text in warnings]
        return want | ({"unknown": unknown} if unknown else {})


def _causes(body: dict[str, Any]) -> list[dict[str, str]]:
    causes = body.get("details", {}).get("causes", [])
    if not causes:
        return [{"message": body["message"]}]
    return sorted(causes, key=lambda cause: (cause.get("field", ""), cause["message"]))


async def main(server: str, token: str) -> None:
    """Record every case and rewrite the file."""
    text = CASES.read_text()
    cases = yaml.safe_load(text)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(
        server,
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(ssl=context),
        trust_env=False,
    ) as session:
        recorder = EventRecorder(session)
        for number, case in enumerate(cases):
            case["want"] = await recorder.record(number, case)
    head = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    CASES.write_text(head + yaml.safe_dump(cases, sort_keys=False, width=100, allow_unicode=True))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
