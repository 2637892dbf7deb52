"""The cases; answers.yaml has kube-apiserver's response to each."""

from e2e.kubernetes.apiserver.devices.builders import (
    ALTERNATIVES,
    DRIVER,
    EXACTLY,
    NONE,
    Case,
    changed,
    claim,
    device_class,
    exactly,
    request,
    selector,
    template,
)
from e2e.kubernetes.apiserver.devices.cases_pods import PODS
from e2e.kubernetes.apiserver.devices.cases_slices import SLICES
from e2e.kubernetes.apiserver.devices.cases_status import STATUSES

ADMIN = {"resource.kubernetes.io/admin-access": "true"}
OPAQUE = {"driver": DRIVER, "parameters": {"kind": "Config"}}
TOLERATION = {"key": "example.com/broken", "operator": "Exists"}


def many(number: int) -> list[dict[str, object]]:
    return [changed(EXACTLY, [("name", f"gpu-{index}")]) for index in range(number)]


CLAIMS = [
    claim("one request gets its defaults"),
    claim("no request at all", ("devices", NONE)),
    claim("an empty list of requests", ("devices.requests", [])),
    claim("as many requests as there may be", ("devices.requests", many(32))),
    claim("a request too many", ("devices.requests", many(33))),
    claim("two requests of one name", ("devices.requests", [EXACTLY, EXACTLY])),
    claim("unknown fields", ("devices.unheardOf", 1), ("devices.requests.0.exactly.color", "red")),
    claim("a request that is a text", ("devices.requests", ["gpu"])),
    claim("a count that is a text", ("devices.requests.0.exactly.count", "2")),
    claim("no change", update={}),
    claim("another label", update={"metadata": {"labels": {"a": "b"}}}),
    claim("another spec", update={"spec": ALTERNATIVES}),
    claim("a status that comes with the spec", update={"status": {"reservedFor": []}}),
]

REQUESTS = [
    request("no name", ("name", "")),
    request("a name with capitals", ("name", "GPU")),
    request("a name that is too long", ("name", "g" * 64)),
    request("neither of the two forms", ("exactly", NONE)),
    request("an empty list of alternatives", ("exactly", NONE), ("firstAvailable", [])),
    request(
        "both forms",
        ("firstAvailable", [{"name": "a", "deviceClassName": "gpu.example.com"}]),
    ),
    exactly("no class", ("deviceClassName", "")),
    exactly("a class that is no name", ("deviceClassName", "GPU!")),
    exactly("all devices", ("allocationMode", "All")),
    exactly("all devices and a count", ("allocationMode", "All"), ("count", 2)),
    exactly("a count", ("count", 3)),
    exactly("a negative count", ("count", -1)),
    exactly("a count of zero", ("count", 0)),
    exactly("an unknown mode", ("allocationMode", "Some")),
    exactly("capacity", ("capacity", {"requests": {"memory": "1024Mi", "a.b/cores": 1.5}})),
    exactly("capacity that is no quantity", ("capacity", {"requests": {"memory": "lots"}})),
    exactly("a toleration", ("tolerations", [TOLERATION])),
    exactly("a toleration gets its operator", ("tolerations", [{"key": "a", "value": "b"}])),
    exactly("a toleration of a value and any", ("tolerations", [{**TOLERATION, "value": "x"}])),
    exactly("an unknown operator", ("tolerations", [{"key": "a", "operator": "Like"}])),
    exactly("an unknown effect", ("tolerations", [{**TOLERATION, "effect": "Prefer"}])),
    exactly("a key that is none", ("tolerations", [{"key": "a b", "operator": "Exists"}])),
    exactly("a value that is none", ("tolerations", [{"key": "a", "value": "b c"}])),
    exactly("as many tolerations as one likes", ("tolerations", [TOLERATION] * 17)),
    exactly("administrative access without the label", ("adminAccess", True)),
    exactly("administrative access", ("adminAccess", True), labels=ADMIN),
    exactly(
        "administrative access with a label that says false",
        ("adminAccess", True),
        labels={"resource.kubernetes.io/admin-access": "false"},
    ),
    exactly("no administrative access", ("adminAccess", False)),
]

_FIRST = "devices.requests.0.firstAvailable"
LISTS = [
    claim("alternatives", spec=ALTERNATIVES),
    claim("alternatives of one name", (f"{_FIRST}.1.name", "big"), spec=ALTERNATIVES),
    claim("an alternative without name", (f"{_FIRST}.0.name", ""), spec=ALTERNATIVES),
    claim("an alternative without class", (f"{_FIRST}.0.deviceClassName", ""), spec=ALTERNATIVES),
    claim("an alternative's count", (f"{_FIRST}.0.count", -2), spec=ALTERNATIVES),
    claim("an alternative's mode", (f"{_FIRST}.0.allocationMode", "Few"), spec=ALTERNATIVES),
    claim("an alternative's access", (f"{_FIRST}.0.adminAccess", True), spec=ALTERNATIVES),
    claim(
        "alternatives too many",
        (_FIRST, [{"name": f"a{index}", "deviceClassName": "c"} for index in range(9)]),
        spec=ALTERNATIVES,
    ),
    claim(
        "a constraint on an alternative",
        ("devices.constraints", [{"requests": ["gpu/big"], "matchAttribute": "a.b/c"}]),
        spec=ALTERNATIVES,
    ),
    claim(
        "a constraint on no alternative",
        ("devices.constraints", [{"requests": ["gpu/huge", "a/b/c"], "matchAttribute": "a.b/c"}]),
        spec=ALTERNATIVES,
    ),
]


def _constraint(name: str, **fields: object) -> Case:
    return claim(f"constraint: {name}", ("devices.constraints", [fields]))


CONSTRAINTS = [
    _constraint("an attribute that must match", matchAttribute=f"{DRIVER}/model"),
    _constraint("an attribute that must differ", distinctAttribute=f"{DRIVER}/serial"),
    _constraint("no attribute"),
    _constraint("both", matchAttribute="a.b/c", distinctAttribute="a.b/d"),
    _constraint("no domain", matchAttribute="model"),
    _constraint("an empty domain", matchAttribute="/model"),
    _constraint("an empty name", matchAttribute="a.b/"),
    _constraint("a name that is none", matchAttribute="a.b/my-model"),
    _constraint("a name that is too long", matchAttribute="a.b/" + "m" * 33),
    _constraint("a domain that is none", distinctAttribute="a_b/model"),
    _constraint("a domain that is too long", distinctAttribute="a" * 64 + "/model"),
    _constraint("an unknown request", requests=["gpu", "tpu"], matchAttribute="a.b/c"),
    _constraint("a request twice", requests=["gpu", "gpu"], matchAttribute="a.b/c"),
    _constraint("a request that is no name", requests=["G"], matchAttribute="a.b/c"),
    claim("constraints too many", ("devices.constraints", [{"matchAttribute": "a.b/c"}] * 33)),
]


def _config(name: str, **fields: object) -> Case:
    return claim(f"config: {name}", ("devices.config", [fields]))


CONFIGS = [
    _config("parameters", opaque=OPAQUE),
    _config("parameters of a request", requests=["gpu"], opaque=OPAQUE),
    _config("nothing"),
    _config("an unknown request", requests=["tpu"], opaque=OPAQUE),
    _config("no driver", opaque={"parameters": {"a": 1}}),
    _config("a driver that is none", opaque={**OPAQUE, "driver": "-x"}),
    _config("a driver with a long name", opaque={**OPAQUE, "driver": "x" * 64}),
    _config("a driver with capitals", opaque={**OPAQUE, "driver": "GPU.example.com"}),
    _config("no parameters", opaque={"driver": DRIVER}),
    _config("parameters that are null", opaque={"driver": DRIVER, "parameters": None}),
    _config("parameters that are too long", opaque={**OPAQUE, "parameters": {"a": "x" * 10240}}),
    claim("configs too many", ("devices.config", [{"opaque": OPAQUE}] * 33)),
]


def _cel(name: str, text: str) -> Case:
    return exactly(f"selector: {name}", ("selectors", [selector(text)]))


SELECTORS = [
    _cel("a driver", f'device.driver == "{DRIVER}"'),
    _cel("an attribute", f'device.attributes["{DRIVER}"].model == "a100"'),
    _cel("a version", f'device.attributes["{DRIVER}"].v.isGreaterThan(semver("1.0.0"))'),
    _cel("a version's part", f'device.attributes["{DRIVER}"].v.major() >= 8'),
    _cel("a capacity", f'device.capacity["{DRIVER}"].mem.compareTo(quantity("40Gi")) >= 0'),
    _cel("a whole number", f'device.capacity["{DRIVER}"].mem.asInteger() > 8'),
    _cel("a domain", f'"{DRIVER}" in device.attributes && true'),
    _cel("an optional", 'device.attributes[?"a.b"].hasValue()'),
    _cel("a bound name", f'cel.bind(d, device.attributes["{DRIVER}"], d.x == 1 || d.y == 2)'),
    _cel("a flag", "device.allowMultipleAllocations"),
    _cel("a list", 'device.driver in ["a", "b"]'),
    _cel("a pattern", 'device.driver.matches("^gpu[.]")'),
    _cel("the whole value", 'device.attributes["a.b"].healthy'),
    _cel("empty", ""),
    _cel("broken", "device.driver =="),
    _cel("a text, not a condition", "device.driver"),
    _cel("a number, not a condition", "1 + 1"),
    _cel("a field that devices do not have", 'device.color == "red"'),
    _cel("a name that nobody knows", "node == 1"),
    _cel("a function that nobody knows", "device.driver.shout()"),
    _cel("a wrong type", "device.driver == 1"),
    exactly("selector: nothing", ("selectors", [{}])),
    exactly("selector: as long as may be", ("selectors", [selector("true" + " " * 10236)])),
    exactly("selector: too long", ("selectors", [selector("true" + " " * 10237)])),
    exactly("selectors too many", ("selectors", [selector("true")] * 33)),
]

TEMPLATES = [
    template("one request gets its defaults"),
    template("labels for the claims", ("metadata", {"labels": {"a": "b"}})),
    template("labels that are none", ("metadata", {"labels": {"a b": "c"}})),
    template("annotations that are none", ("metadata", {"annotations": {"a b": "c"}})),
    template("a request without name", ("spec.devices.requests.0.name", "")),
    template("access without the label", ("spec.devices.requests.0.exactly.adminAccess", True)),
    template("access", ("spec.devices.requests.0.exactly.adminAccess", True), labels=ADMIN),
    template("no change", update={}),
    template("another label", update={"metadata": {"labels": {"a": "b"}}}),
    template("another spec", update={"spec": {"spec": ALTERNATIVES}}),
    template(
        "another spec that is wrong",
        update={"spec": {"spec": {"devices": {"requests": [{"name": "x"}]}}}},
    ),
]

CLASSES = [
    device_class("nothing"),
    device_class("a selector", ("selectors", [selector(f'device.driver == "{DRIVER}"')])),
    device_class("a selector without text", ("selectors", [{}])),
    device_class("selectors too many", ("selectors", [selector("true")] * 33)),
    device_class("a config", ("config", [{"opaque": OPAQUE}])),
    device_class("an empty config", ("config", [{}])),
    device_class("an extended resource", ("extendedResourceName", "example.com/gpu")),
    device_class("a resource of the core", ("extendedResourceName", "cpu")),
    device_class("a quota's resource", ("extendedResourceName", "requests.example.com/gpu")),
    device_class("a resource without name", ("extendedResourceName", "example.com/")),
    device_class("a change is counted", update={"spec": {"config": [{"opaque": OPAQUE}]}}),
    device_class("a label is not counted", update={"metadata": {"labels": {"a": "b"}}}),
    device_class("a wrong change", update={"spec": {"config": [{}]}}),
]

CASES = [
    *CLAIMS,
    *REQUESTS,
    *LISTS,
    *CONSTRAINTS,
    *CONFIGS,
    *SELECTORS,
    *TEMPLATES,
    *CLASSES,
    *SLICES,
    *STATUSES,
    *PODS,
]
