"""The subset of protobuf that unmodified clients send: kubectl creates small objects in it.

The decoder reads only the messages in the table. The server rejects a body of another kind, or with
a field that is not in the table, as an unsupported media type; it never drops a field silently.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from localcluster.base.clock import timestamp

MAGIC = b"k8s\x00"
VARINT, BYTES = 0, 2


class UnreadableError(Exception):
    """The table does not cover the body, or the body is not protobuf."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a message by number: name and kind.

    Kinds: str, int, bool, bytes, time, quantity, intstr, `{kind}` for a map from strings, `[kind]`
    for a list, or the name of a message.
    """

    fields: dict[int, tuple[str, str]]


def _shape(text: str) -> Shape:
    fields = {}
    for part in text.split():
        number, name, kind = part.split(":")
        fields[int(number)] = (name, kind)
    return Shape(fields)


_SHAPES = {
    "Meta": _shape(
        "1:name:str 2:generateName:str 3:namespace:str 4:selfLink:str 5:uid:str "
        "6:resourceVersion:str 7:generation:int 8:creationTimestamp:time 9:deletionTimestamp:time "
        "10:deletionGracePeriodSeconds:int 11:labels:{str} 12:annotations:{str} "
        "13:ownerReferences:[Owner] 14:finalizers:[str]"
    ),
    "Owner": _shape(
        "1:kind:str 3:name:str 4:uid:str 5:apiVersion:str 6:controller:bool "
        "7:blockOwnerDeletion:bool"
    ),
    "Selector": _shape("1:matchLabels:{str} 2:matchExpressions:[Requirement]"),
    "Requirement": _shape("1:key:str 2:operator:str 3:values:[str]"),
    "Reference": _shape(
        "1:kind:str 2:namespace:str 3:name:str 4:uid:str 5:apiVersion:str 6:resourceVersion:str "
        "7:fieldPath:str"
    ),
    "LocalReference": _shape("1:name:str"),
    "NamespaceSpec": _shape("1:finalizers:[str]"),
    "NamespaceStatus": _shape("1:phase:str"),
    "v1/Namespace": _shape("1:metadata:Meta 2:spec:NamespaceSpec 3:status:NamespaceStatus"),
    "v1/ConfigMap": _shape("1:metadata:Meta 2:data:{str} 3:binaryData:{bytes} 4:immutable:bool"),
    "v1/Secret": _shape(
        "1:metadata:Meta 2:data:{bytes} 3:type:str 4:stringData:{str} 5:immutable:bool"
    ),
    "v1/ServiceAccount": _shape(
        "1:metadata:Meta 2:secrets:[Reference] 3:imagePullSecrets:[LocalReference] "
        "4:automountServiceAccountToken:bool"
    ),
    "v1/Binding": _shape("1:metadata:Meta 2:target:Reference"),
    "Preconditions": _shape("1:uid:str 2:resourceVersion:str"),
    "DeleteOptions": _shape(
        "1:gracePeriodSeconds:int 2:preconditions:Preconditions 3:orphanDependents:bool "
        "4:propagationPolicy:str 5:dryRun:[str]"
    ),
    "policy/v1/Eviction": _shape("1:metadata:Meta 2:deleteOptions:DeleteOptions"),
    "scheduling.k8s.io/v1/PriorityClass": _shape(
        "1:metadata:Meta 2:value:int 3:globalDefault:bool 4:description:str 5:preemptionPolicy:str"
    ),
    "EnvVar": _shape("1:name:str 2:value:str"),
    "Port": _shape("1:name:str 2:hostPort:int 3:containerPort:int 4:protocol:str 5:hostIP:str"),
    "Resources": _shape("1:limits:{quantity} 2:requests:{quantity}"),
    "Container": _shape(
        "1:name:str 2:image:str 3:command:[str] 4:args:[str] 5:workingDir:str 6:ports:[Port] "
        "7:env:[EnvVar] 8:resources:Resources 13:terminationMessagePath:str 14:imagePullPolicy:str "
        "16:stdin:bool 17:stdinOnce:bool 18:tty:bool 20:terminationMessagePolicy:str"
    ),
    "PodSpec": _shape(
        "2:containers:[Container] 3:restartPolicy:str 4:terminationGracePeriodSeconds:int "
        "5:activeDeadlineSeconds:int 6:dnsPolicy:str 7:nodeSelector:{str} 8:serviceAccountName:str "
        "9:serviceAccount:str 10:nodeName:str 11:hostNetwork:bool 12:hostPID:bool 13:hostIPC:bool "
        "16:hostname:str 17:subdomain:str 19:schedulerName:str 20:initContainers:[Container] "
        "24:priorityClassName:str 25:priority:int"
    ),
    "UserInfo": _shape("1:username:str 2:uid:str 3:groups:[str]"),
    "WhoStatus": _shape("1:userInfo:UserInfo"),
    "authentication.k8s.io/v1/SelfSubjectReview": _shape("1:metadata:Meta 2:status:WhoStatus"),
    "ResourceAttributes": _shape(
        "1:namespace:str 2:verb:str 3:group:str 4:version:str 5:resource:str 6:subresource:str "
        "7:name:str"
    ),
    "PathAttributes": _shape("1:path:str 2:verb:str"),
    "AccessSpec": _shape(
        "1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:PathAttributes"
    ),
    "AccessStatus": _shape("1:allowed:bool 2:reason:str 3:evaluationError:str 4:denied:bool"),
    "authorization.k8s.io/v1/SelfSubjectAccessReview": _shape(
        "1:metadata:Meta 2:spec:AccessSpec 3:status:AccessStatus"
    ),
    "BudgetSpec": _shape("1:minAvailable:intstr 2:selector:Selector 3:maxUnavailable:intstr"),
    "BudgetStatus": _shape(
        "1:observedGeneration:int 3:disruptionsAllowed:int 4:currentHealthy:int "
        "5:desiredHealthy:int 6:expectedPods:int"
    ),
    "policy/v1/PodDisruptionBudget": _shape(
        "1:metadata:Meta 2:spec:BudgetSpec 3:status:BudgetStatus"
    ),
    "Strategy": _shape("1:type:str"),
    "DeploymentSpec": _shape(
        "1:replicas:int 2:selector:Selector 3:template:PodTemplate 4:strategy:Strategy "
        "5:minReadySeconds:int 6:revisionHistoryLimit:int 7:paused:bool "
        "9:progressDeadlineSeconds:int"
    ),
    "Counts": _shape(
        "1:observedGeneration:int 2:replicas:int 3:updatedReplicas:int 4:availableReplicas:int "
        "5:unavailableReplicas:int 7:readyReplicas:int"
    ),
    "apps/v1/Deployment": _shape("1:metadata:Meta 2:spec:DeploymentSpec 3:status:Counts"),
    "PodTemplate": _shape("1:metadata:Meta 2:spec:PodSpec"),
    "JobSpec": _shape(
        "1:parallelism:int 2:completions:int 3:activeDeadlineSeconds:int 4:selector:Selector "
        "5:manualSelector:bool 6:template:PodTemplate 7:backoffLimit:int "
        "8:ttlSecondsAfterFinished:int 9:completionMode:str 10:suspend:bool"
    ),
    "JobCounts": _shape("4:active:int 5:succeeded:int 6:failed:int 7:completedIndexes:str"),
    "batch/v1/Job": _shape("1:metadata:Meta 2:spec:JobSpec 3:status:JobCounts"),
}


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in a Kubernetes protobuf envelope. Raises UnreadableError."""
    if not body.startswith(MAGIC):
        raise UnreadableError("no envelope")
    api_version = kind = ""
    raw = b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == 1:
            said = dict(_fields(_bytes(value)))
            api_version, kind = _bytes(said.get(1, b"")).decode(), _bytes(said.get(2, b"")).decode()
        elif number == 2:
            raw = _bytes(value)
    shape = "DeleteOptions" if kind == "DeleteOptions" else f"{api_version}/{kind}"
    if shape not in _SHAPES:
        raise UnreadableError(f"no table for {shape}")
    return {"apiVersion": api_version, "kind": kind, **_message(raw, _SHAPES[shape])}


def _message(data: bytes, shape: Shape) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for number, value in _fields(data):
        if number not in shape.fields:
            raise UnreadableError(f"no field {number}")
        name, kind = shape.fields[number]
        if kind.startswith("["):
            out.setdefault(name, []).append(_value(value, kind[1:-1]))
        elif kind.startswith("{"):
            pair = dict(_fields(_bytes(value)))
            key = _bytes(pair.get(1, b"")).decode()
            out.setdefault(name, {})[key] = _value(pair.get(2, b""), kind[1:-1])
        else:
            read = _value(value, kind)
            if read not in ("", {}, None):  # Go encodes unset fields as empty values
                out[name] = read
    return out


def _value(value: int | bytes, kind: str) -> Any:
    match kind:
        case "str":
            return _bytes(value).decode()
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "int":
            return _signed(value)
        case "bool":
            return bool(_signed(value))
        case "intstr":
            parts = dict(_fields(_bytes(value)))
            is_text = parts.get(1, 0) == 1
            return _bytes(parts.get(3, b"")).decode() if is_text else _signed(parts.get(2, 0))
        case "quantity":
            return _bytes(dict(_fields(_bytes(value))).get(1, b"")).decode()
        case "time":
            seconds = dict(_fields(_bytes(value))).get(1)
            return timestamp(datetime.fromtimestamp(_signed(seconds), UTC)) if seconds else None
        case _:
            return _message(_bytes(value), _SHAPES[kind])


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise UnreadableError("a number where bytes are expected")
    return value


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise UnreadableError("bytes where a number is expected")
    return value - (1 << 64) if value >= 1 << 63 else value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == BYTES:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise UnreadableError("cut off")
            yield number, data[at : at + length]
            at += length
        else:
            raise UnreadableError(f"wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise UnreadableError("cut off")
