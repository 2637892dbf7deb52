"""ServiceAccounts and their tokens, as a cluster gives them to pods."""

from e2e.harness.support.rest import Rest


async def token(rest: Rest, namespace: str, name: str) -> str:
    """Return a new token of an existing ServiceAccount, valid for hours."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    answer = await rest.post(path, {**kind, "spec": {"expirationSeconds": 8 * 3600}})
    made: str = answer.expect(201)["status"]["token"]
    return made
