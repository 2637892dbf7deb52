"""Words that several messages share."""


def count(number: int, noun: str) -> str:
    """Return the number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def sentence(text: str) -> str:
    """Return the text as a sentence, with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def without_domain(nodes: int) -> str:
    """Return why so many nodes are in no domain of a device attribute."""
    verb, whose = ("is", "its devices") if nodes == 1 else ("are", "their devices")
    return f"{count(nodes, 'node')} {verb} in none because {whose} have several values"
