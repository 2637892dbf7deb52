"""CustomResourceDefinitions: their path, and checks that their kinds are served."""

from functools import partial

from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def is_served(rest: Rest, name: str) -> bool:
    """Return True if the definition is established, and its objects can be listed and watched."""
    crd = (await rest.get(f"{PATH}/{name}")).ok()
    spec, conditions = crd["spec"], crd.get("status", {}).get("conditions") or []
    if not any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
        return False
    (stored,) = (one["name"] for one in spec["versions"] if one["storage"])
    listed = f"/apis/{spec['group']}/{stored}/{spec['names']['plural']}"
    # From the watch cache: until that is filled, API servers respond to both with 429.
    return (await rest.get(listed, params={"resourceVersion": "0"})).status == 200


async def served(rest: Rest, *names: str) -> None:
    """Wait until all of these are served. Raises TimeoutError."""
    for name in names:
        await eventually(partial(is_served, rest, name), f"{name} to be served", 60)
