from typing import Any

import pytest

from localcluster.base.protobuf import UnreadableError, decode


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(*fields: tuple[int, Any]) -> bytes:
    """Encode a message from (number, int | str | bytes) pairs."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + message((1, message((1, api_version), (2, kind))), (2, raw), (3, ""))


META = message((1, "a"), (2, ""), (8, b""), (11, message((1, "k"), (2, "v"))))


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(
            envelope("v1", "Namespace", message((1, META), (2, b""), (3, message((1, ""))))),
            {"apiVersion": "v1", "kind": "Namespace"},
            id="what is unset is left out",
        ),
        pytest.param(
            envelope("v1", "Secret", message((1, META), (2, message((1, "x"), (2, b"\xff"))))),
            {"apiVersion": "v1", "kind": "Secret", "data": {"x": "/w=="}},
            id="bytes are base64",
        ),
        pytest.param(
            envelope(
                "scheduling.k8s.io/v1",
                "PriorityClass",
                message((1, META), (2, -5), (3, 1), (4, "text")),
            ),
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "value": -5,
                "globalDefault": True,
                "description": "text",
            },
            id="numbers have signs",
        ),
        pytest.param(
            envelope(
                "policy/v1",
                "PodDisruptionBudget",
                message((1, META), (2, message((1, message((1, 1), (3, "50%")))))),
            ),
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "spec": {"minAvailable": "50%"},
            },
            id="a number or a text",
        ),
    ],
)
def test_small_objects_are_read(body: bytes, want: dict[str, Any]) -> None:
    assert decode(body) == {**want, "metadata": {"name": "a", "labels": {"k": "v"}}}


def test_quantities_and_times() -> None:
    resources = message((2, message((1, "cpu"), (2, message((1, "2"))))))
    pod_spec = message((2, message((1, "c"), (8, resources))))
    job = message((2, message((6, message((2, pod_spec))))), (1, message((8, message((1, 60))))))

    read = decode(envelope("batch/v1", "Job", job))

    container = read["spec"]["template"]["spec"]["containers"][0]
    assert container == {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    assert read["metadata"] == {"creationTimestamp": "1970-01-01T00:01:00Z"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}", id="no envelope"),
        pytest.param(envelope("v1", "Pod", b""), id="a kind without table"),
        pytest.param(envelope("v1", "ConfigMap", message((9, "x"))), id="an unknown field"),
        pytest.param(envelope("v1", "ConfigMap", message((1, 5))), id="a number for a message"),
        pytest.param(envelope("v1", "ConfigMap", message((4, "x"))), id="a text for a number"),
        pytest.param(envelope("v1", "ConfigMap", b"\x0a\x7f"), id="cut off in a field"),
        pytest.param(envelope("v1", "ConfigMap", b"\x80"), id="cut off in a number"),
        pytest.param(envelope("v1", "ConfigMap", b"\x0d1234"), id="another wire type"),
    ],
)
def test_what_cannot_be_read_whole_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableError):
        decode(body)
