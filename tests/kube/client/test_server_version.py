"""The version that an API server reports."""

import pytest

from kube.client.server_version import release_of


@pytest.mark.parametrize(
    ("said", "want"),
    [
        (b'{"major": "1", "minor": "36"}', (1, 36)),
        (b'{"major": "1", "minor": "34+"}', (1, 34)),
        (b'{"major": "1"}', (0, 0)),
        (b'{"major": "", "minor": "x"}', (0, 0)),
        (b"[]", (0, 0)),
        (b"no", (0, 0)),
        (b'{"major": "\xbc"}', (0, 0)),
        (b"[" * 100_000, (0, 0)),
    ],
)
def test_the_release(said: bytes, want: tuple[int, int]) -> None:
    assert release_of(said) == want
