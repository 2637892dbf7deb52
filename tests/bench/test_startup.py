"""The report of a start of the scheduler in a large cluster."""

from bench import startup


def test_a_start_that_takes_too_long_is_reported() -> None:
    measured = {
        "nodes": 10, "pods": 20, "seconds": 61.0, "sent MiB": 1.0, "cpu": 2.0,
        "resident MiB": 100.0, "peak MiB": 110.0, "empty MiB": 90.0,
        "decisions": {"refusal": 0.001},
    }  # fmt: skip

    assert startup.report(measured)[1] is False
    text, good = startup.report(measured | {"seconds": 59.0})
    assert good
    assert "| decision: refusal | 1.0 ms | 10 ms |" in text
