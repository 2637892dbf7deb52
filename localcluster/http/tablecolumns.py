"""The printer columns of built-in kinds; kinds not listed here have name and age."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localcluster.base.clock import parse_time

Object = dict[str, Any]
Cell = Callable[[Object, datetime], Any]
NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a built-in kind; those of priority 1 appear with `-o wide`."""

    name: str
    type: str
    cell: Cell
    priority: int = 0


def duration(seconds: float) -> str:
    """Format a duration as kubectl does: 45s, 3m20s, 5h, 2d4h."""
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    for limit, big, small, until in (
        (120, 1, 0, 0),
        (600, 60, 1, 600),
        (10_800, 60, 0, 0),
        (28_800, 3600, 60, 28_800),
        (172_800, 3600, 0, 0),
        (691_200, 86_400, 3600, 691_200),
    ):
        if whole < limit:
            return _units(whole, big, small if until else 0)
    days = whole // 86_400
    if days < 730:
        return f"{days}d"
    years, rest = divmod(days, 365)
    return f"{years}y{rest}d" if rest and years < 8 else f"{years}y"


_LETTER = {1: "s", 60: "m", 3600: "h", 86_400: "d"}


def _units(whole: int, big: int, small: int) -> str:
    count, rest = divmod(whole, big)
    text = f"{count}{_LETTER[big]}"
    if small and rest // small:
        text += f"{rest // small}{_LETTER[small]}"
    return text


def age(stamp: str | None, now: datetime) -> str:
    """Return the age of a timestamp."""
    return duration((now - parse_time(stamp)).total_seconds()) if stamp else "<unknown>"


def _age(obj: Object, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _at(path: str, default: Any = NONE) -> Cell:
    def cell(obj: Object, _: datetime) -> Any:
        value: Any = obj
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return default if value is None or value == "" else value

    return cell


def _statuses(pod: Object) -> list[Object]:
    return (pod.get("status") or {}).get("containerStatuses") or []


def _ready(pod: Object, _: datetime) -> str:
    ready = sum(bool(status.get("ready")) for status in _statuses(pod))
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def _pod_status(pod: Object, _: datetime) -> str:
    status = pod.get("status") or {}
    text = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("reason") == "SchedulingGated":
            text = "SchedulingGated"
    for container in reversed(_statuses(pod)):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        text = waiting.get("reason") or ended.get("reason") or text
    if "deletionTimestamp" in pod["metadata"]:
        text = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(text)


def _restarts(pod: Object, _: datetime) -> str:
    return str(sum(status.get("restartCount", 0) for status in _statuses(pod)))


def _gates(pod: Object, _: datetime) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    if not gates:
        return NONE
    conditions = (pod.get("status") or {}).get("conditions") or ()
    true = {c["type"] for c in conditions if c.get("status") == "True"}
    return f"{sum(gate['conditionType'] in true for gate in gates)}/{len(gates)}"


def _node_status(node: Object, _: datetime) -> str:
    words = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in (node.get("status") or {}).get("conditions") or ()
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: Object, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    return ",".join(role for role in roles if role) or NONE


def _address(kind: str) -> Cell:
    def cell(node: Object, _: datetime) -> str:
        addresses = (node.get("status") or {}).get("addresses") or ()
        return next((str(a["address"]) for a in addresses if a.get("type") == kind), NONE)

    return cell


def _job_status(job: Object, _: datetime) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    true = {c["type"] for c in conditions if c.get("status") == "True"}
    for kind, word in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if kind in true:
            return word
    return "Terminating" if "deletionTimestamp" in job["metadata"] else "Running"


def _completions(job: Object, _: datetime) -> str:
    spec, done = job["spec"], (job.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 1)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Object, now: datetime) -> str:
    status = job.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    until = parse_time(end) if end else now
    return duration((until - parse_time(status["startTime"])).total_seconds())


def _containers(field: str) -> Cell:
    def cell(job: Object, _: datetime) -> str:
        containers = job["spec"]["template"]["spec"].get("containers") or ()
        return ",".join(str(container.get(field, "")) for container in containers)

    return cell


def _selector(obj: Object, _: datetime) -> str:
    selector = (obj["spec"].get("selector") or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or NONE


def _last_seen(event: Object, now: datetime) -> str:
    series = event.get("series") or {}
    for stamp in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
    ):
        if stamp:
            return age(stamp, now)
    return _age(event, now)


def _first_seen(event: Object, now: datetime) -> str:
    return age(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_object(event: Object, _: datetime) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(event: Object, _: datetime) -> str:
    source = event.get("source") or {}
    parts = [source.get("component") or event.get("reportingComponent", ""), source.get("host", "")]
    return ", ".join(part for part in parts if part)


def _event_count(event: Object, _: datetime) -> int:
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or 1)


def _claim_state(claim: Object, _: datetime) -> str:
    status = claim.get("status") or {}
    words = ["deleted"] if "deletionTimestamp" in claim["metadata"] else []
    if status.get("allocation") is None:
        return ",".join(words or ["pending"])
    words += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    return ",".join(words)


_AGE = Column("Age", "string", _age)
BUILT_IN: dict[tuple[str, str], Sequence[Column]] = {
    ("", "pods"): (
        Column("Ready", "string", _ready),
        Column("Status", "string", _pod_status),
        Column("Restarts", "string", _restarts),
        _AGE,
        Column("IP", "string", _at("status.podIP"), 1),
        Column("Node", "string", _at("spec.nodeName"), 1),
        Column("Nominated Node", "string", _at("status.nominatedNodeName"), 1),
        Column("Readiness Gates", "string", _gates, 1),
    ),
    ("", "nodes"): (
        Column("Status", "string", _node_status),
        Column("Roles", "string", _roles),
        _AGE,
        Column("Version", "string", _at("status.nodeInfo.kubeletVersion", "")),
        Column("Internal-IP", "string", _address("InternalIP"), 1),
        Column("External-IP", "string", _address("ExternalIP"), 1),
        Column("OS-Image", "string", _at("status.nodeInfo.osImage", "<unknown>"), 1),
        Column("Kernel-Version", "string", _at("status.nodeInfo.kernelVersion", "<unknown>"), 1),
        Column(
            "Container-Runtime",
            "string",
            _at("status.nodeInfo.containerRuntimeVersion", "<unknown>"),
            1,
        ),
    ),
    ("", "events"): (
        Column("Last Seen", "string", _last_seen),
        Column("Type", "string", _at("type", "")),
        Column("Reason", "string", _at("reason", "")),
        Column("Object", "string", _event_object),
        Column("Subobject", "string", _at("involvedObject.fieldPath", ""), 1),
        Column("Source", "string", _event_source, 1),
        Column("Message", "string", _at("message", "")),
        Column("First Seen", "string", _first_seen, 1),
        Column("Count", "string", _event_count, 1),
    ),
    ("resource.k8s.io", "resourceclaims"): (Column("State", "string", _claim_state), _AGE),
    ("resource.k8s.io", "resourceslices"): (
        Column("Node", "string", _at("spec.nodeName", "")),
        Column("Driver", "string", _at("spec.driver", "")),
        Column("Pool", "string", _at("spec.pool.name", "")),
        _AGE,
    ),
    ("batch", "jobs"): (
        Column("Status", "string", _job_status),
        Column("Completions", "string", _completions),
        Column("Duration", "string", _job_duration),
        _AGE,
        Column("Containers", "string", _containers("name"), 1),
        Column("Images", "string", _containers("image"), 1),
        Column("Selector", "string", _selector, 1),
    ),
}
