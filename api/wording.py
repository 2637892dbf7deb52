"""Words that messages of several layers share. The decision core has its own: it imports no API."""


def count(number: int, noun: str) -> str:
    """Return the number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
