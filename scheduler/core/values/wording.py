"""Fragments that several messages share."""


def count(number: int, noun: str) -> str:
    """Return the number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def without_domain(nodes: int) -> str:
    """Return the reason why this number of nodes is in no domain of an attribute."""
    devices = "its devices have" if nodes == 1 else "their devices have"
    return f"{count(nodes, 'node')} in none, as {devices} several values"
