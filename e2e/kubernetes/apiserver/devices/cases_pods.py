"""Pods with claims."""

from e2e.kubernetes.apiserver.devices.builders import NONE, POD_SPEC, Case, pod

_CLAIMS = "containers.0.resources"


def _used(name: str, *claims: object) -> Case:
    return pod(name, (_CLAIMS, {"claims": list(claims)}))


def _entry(text: str, /, **fields: object) -> Case:
    return pod(text, ("resourceClaims", [fields]))


TWO = [
    {"name": "gpu", "resourceClaimTemplateName": "a"},
    {"name": "nic", "resourceClaimName": "b"},
]

PODS = [
    pod("a template"),
    _entry("a claim by name", name="gpu", resourceClaimName="shared"),
    _entry("an entry without name", resourceClaimName="shared"),
    _entry("an entry whose name is none", name="G", resourceClaimName="shared"),
    _entry("an entry for nothing", name="gpu"),
    _entry("an entry for both", name="gpu", resourceClaimName="a", resourceClaimTemplateName="b"),
    _entry("a claim that is no name", name="gpu", resourceClaimName="A b"),
    _entry("a template that is no name", name="gpu", resourceClaimTemplateName="A b"),
    _entry("an empty name", name="gpu", resourceClaimName=""),
    pod("an entry twice", ("resourceClaims", [TWO[0], TWO[0]])),
    pod("two entries", ("resourceClaims", TWO), (_CLAIMS, {"claims": [{"name": "nic"}]})),
    _used("a container that uses it", {"name": "gpu"}),
    _used("a container that uses a request", {"name": "gpu", "request": "a"}),
    _used("a container that uses it twice", {"name": "gpu"}, {"name": "gpu"}),
    _used(
        "requests of one claim", {"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}
    ),
    _used("a request twice", {"name": "gpu", "request": "a"}, {"name": "gpu", "request": "a"}),
    _used("a request and all of it", {"name": "gpu", "request": "a"}, {"name": "gpu"}),
    _used("all of it and a request", {"name": "gpu"}, {"name": "gpu", "request": "a"}),
    _used("a request that is no name", {"name": "gpu", "request": "A/b"}),
    _used("a claim that the pod does not have", {"name": "tpu"}),
    _used("a claim without name", {"name": ""}),
    pod(
        "a claim where the pod has none",
        ("resourceClaims", NONE),
        (_CLAIMS, {"claims": [{"name": "gpu"}]}),
    ),
    pod(
        "an init container",
        (
            "initContainers",
            [{"name": "i", "image": "x:1", "resources": {"claims": [{"name": "x"}]}}],
        ),
    ),
    pod("a type that is wrong", (_CLAIMS, {"claims": ["gpu"]})),
    pod("a name of the wrong type", (_CLAIMS, {"claims": [{"name": 1}]})),
    pod("the entries stay", update={"spec": {**POD_SPEC, "resourceClaims": TWO}}),
    pod(
        "a status", status=({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "x"}]},)
    ),
    pod("a status without claim", status=({"resourceClaimStatuses": [{"name": "gpu"}]},)),
    pod("a status of no entry", status=({"resourceClaimStatuses": [{"name": "tpu"}]},)),
    pod("a status twice", status=({"resourceClaimStatuses": [{"name": "gpu"}, {"name": "gpu"}]},)),
    pod(
        "a status with a name that is none",
        status=({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "A b"}]},),
    ),
    pod(
        "a status that is given up",
        status=(
            {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "x"}]},
            {"resourceClaimStatuses": []},
        ),
    ),
]
