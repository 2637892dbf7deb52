"""The terms of the code and of texts for users: Kubernetes' first, the documents' second.

Each row is a term that was replaced, with its replacement. Texts under outside rules (old lines of
the changelog, the design documents' own text) are not checked.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.structure.graph import PACKAGES, ROOT

NAMES = {
    "AssumedVolume": "Promise Promises",
    "CandidatePlacement": "Confined confine",
    "InterPodAffinity, PodTopologySpread": "Company Leanings leanings",
    "NodeTable": "Columns",
    "Nomination": "Hold Holds",
    "PodLabelIndex": "Bearers bearers",
    "PodSelectors, MatchCount": "Relations Tally Tallies tally tallies",
    "PrioritySemaphore": "Turns",
    "Reservations": "Journal",
    "SearchBudget": "Taking",
    "Signature, place_batch": "Likeness likeness place_alike",
    "SkewLimit, Preference": "Even Wish",
    "StarvationGate": "Door Doorkeeper doorkeeper DOOR_CLOSED",
    "a name of its own": "World world",
    "excluded_by, scored_by": "shuns heeds",
    "mark_evicting, release, unit_owner": "doom doomed lift speaker",
    "minimum": "floor floors",
    "order_sensitive": "minded",
    "optimistic_slots": "outlook",
    "required_affinity, preferred_spread": "near away likes evenly",
    "self_interacting": "sociable",
    "candidates, dry_run": "Wheres wheres",
    "annotation": "parcel Parcel",
    "maintenance, orphans, group_writer": "upkeep Upkeep leftovers Leftovers Maker",
    "DeviceCapacity, ResourceAmounts, StageCapacity": "Room DomainRoom StageRoom",
    "CapacityWakeups": "NewRoom _new_room",
    "capacity": "any_room empty_room equal_room held_room room_of waits_for_room _make_room",
    "GroupPodCounts": "Standing standings job_standing",
    "SelectorEvaluator, evaluate": "Judge no_judge _judge_kind judged_again",
    "StateChanges, LastPodState, DeletedOwner": "Left",
    "SubtreePlacement, HandoverMethod": "Way",
    "CommonOwner": "Common",
    "CycleParts, ConsoleParts": "Parts",
    "DeviceSelector, CompiledSelector": "Selector",
    "AllowanceExhaustedError, CostExhaustedError": "PostponedError",
    "EqualRefusals, EqualRootDecisions": "EqualRoots",
    "on_group_changed, on_pod_changed, on_claim_changed": "group_is pod_is claim_is template_is",
    "forget_deleted, on_victims_deleted": "forget_gone _on_gone victims_gone",
    "published_since, follow_published": "told_since told_until told_expired follow_told",
    "observed_blocker, claim_in_status, is_unchanged": "said_in claim_said says_the_same",
    "problem_of": "lack_of lack_of_own",
    "other_owner, unmanaged_warnings": "left_to left_warnings",
    "usual_name, substitute_name": "stands_for standing_for standing_in",
    "recreate, relist, refresh": "_make_again _list_anew look_again _count_again",
    "count_response, unreachable, Handler": "_note_answer _unanswered_since _Answer Answering",
    "use_held_places, _may_use, _with_next_authority": (
        "taken_over _taken_over _take_over _may_take_over TAKE_OVER"
    ),
    "created_at, created_uid": "made_at made_uid",
    "release_minimum, release_expected_pods": "wait_for_nobody expect_nothing",
}
INSTEAD = {word: new for new, old in NAMES.items() for word in old.split()}

MODULES = {
    "alike", "bearers", "company", "doorkeeper", "exhaust", "hints", "holds", "journal", "judge",
    "leanings", "leftovers", "maker", "mirror", "parcel", "promises", "reach", "regions",
    "relations", "remains", "taking", "tallies", "turns", "upkeep", "wheres", "world",
}  # fmt: skip

PROSE = {
    r"\bfloors?\b": "minCount, minGroupCount; in code: minimum",
    r"\bdoors?\b": "the starvation gate",
    r"\bdoorkeeper\b": "StarvationMonitor",
    r"\btall(y|ies)\b": "match count",
    r"\bdoom(ed|s)?\b": "evicting",
    r"\bshun(s|ned)?\b": "excluded by anti-affinity",
    r"\bheed(s|ed)?\b": "go by, follow",
    r"\bneeds company\b": "needs a peer",
    r"\bmind each other\b": "order matters",
}

_ALLOWED = {
    "tools/bench/report/curve.py": {"floor"},  # numpy's
    "analysis/lab/lives.py": {"floor"},  # of math
    "tests/structure/test_words.py": set(INSTEAD),
}


def _texts(paths: Iterable[Path]) -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}


def _sources() -> Iterator[Path]:
    found = (path for folder in (*PACKAGES, "tests") for path in (ROOT / folder).rglob("*.py"))
    return (path for path in found if "modules" not in path.parts)


def _pages() -> Iterator[Path]:
    yield from (ROOT / "docs").glob("*.md")
    yield from (ROOT / "README.md", ROOT / "e2e" / "README.md", ROOT / "localcluster" / "README.md")
    yield from (ROOT / "manifests").rglob("*.yaml")
    yield from (ROOT / "examples").rglob("*.yaml")


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return _texts(_sources())


def test_no_name_is_one_that_was_replaced(sources: dict[str, str]) -> None:
    found = []
    for place, text in sources.items():
        words = set(re.findall(r"\w+", text)) & (INSTEAD.keys() - _ALLOWED.get(place, set()))
        if not words:  # the separation of names and prose takes long
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME and token.string in words:
                new = INSTEAD[token.string]
                found.append(f"{place}:{token.start[0]}: {token.string}, say {new}")
    assert not found, "\n".join(found)


def test_no_module_has_a_name_that_was_replaced() -> None:
    stems = {path.stem.removeprefix("test_") for path in _sources() if path != Path(__file__)}
    assert stems & MODULES == set()


def test_no_text_has_a_word_that_was_replaced(sources: dict[str, str]) -> None:
    """The check covers pages, manifests, docstrings, comments, messages and metrics."""
    found = []
    for place, text in {**sources, **_texts(_pages())}.items():
        lower = text.lower()
        words = [word for word in PROSE if re.sub(r"\\b|\(.*|s\?.*", "", word) in lower]
        for word in words if place != "tests/structure/test_words.py" else ():
            for match in re.finditer(word, lower):
                number = lower.count("\n", 0, match.start()) + 1
                line = text.splitlines()[number - 1]
                if "floor(" not in line or place not in _ALLOWED:
                    found.append(f"{place}:{number}: {line.strip()[:80]}; say {PROSE[word]}")
    assert not found, "\n".join(found)


_BY_TEXT = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "split", "find"}

_READS_TEXT = {
    "cli/doctor/registration.py": "a webhook's refusal has no field for the feature gate",
    "console/state/victims.py": "a DisruptionTarget condition has no field for the preemptor",
    "scheduler/claims/allocation_writer.py": "an API server names an immutable field in text",
}
"""Modules that read a text of Muster, with the reason."""


def test_no_code_branches_on_english_text() -> None:
    """A text can be reworded; a field, a type or a constant is there to decide by."""
    found = []
    for path in _production():
        place = str(path.relative_to(ROOT))
        tree = ast.parse(path.read_text("utf-8"))
        constants = dict(_constants(tree))
        for node in ast.walk(tree) if place not in _READS_TEXT else ():
            texts: list[ast.expr] = []
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                texts = [node.left] if not isinstance(node.comparators[0], ast.Tuple) else []
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                texts = list(node.args) if node.func.attr in _BY_TEXT else []
            if any(_is_english(text, constants) for text in texts):
                found.append(f"{place}: {ast.unparse(node)[:80]}")
    assert not found, "\n".join(found)


def test_the_check_finds_such_a_branch() -> None:
    module = ast.parse(
        'A = "waits for "\ntext.startswith(A)\n"cpu short" in text\nf"is {x}" in y\n'
    )
    constants = dict(_constants(module))
    _, call, literal, built = (node.value for node in module.body if hasattr(node, "value"))

    assert isinstance(call, ast.Call)
    assert isinstance(literal, ast.Compare)
    assert isinstance(built, ast.Compare)
    assert all(_is_english(each, constants) for each in (call.args[0], literal.left, built.left))
    assert not _is_english(ast.parse('"a.dev/"', mode="eval").body, constants)


def _production() -> Iterator[Path]:
    folders = set(PACKAGES) - {"tools", "e2e", "localcluster", "tests"}
    found = (path for folder in sorted(folders) for path in (ROOT / folder).rglob("*.py"))
    return (path for path in found if "tests" not in path.parts)


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the module's constants, each with its value."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _is_english(text: ast.expr, constants: Mapping[str, ast.expr]) -> bool:
    """Return True for a string with a word and a space."""
    match text:
        case ast.Name(id=name) if name in constants:
            return not isinstance(constants[name], ast.Name) and _is_english(constants[name], {})
        case ast.Constant(value=str(value)):
            return bool(re.search(r"[A-Za-z]{2,} | [A-Za-z]{2,}", value))
        case ast.JoinedStr(values=values):
            return any(_is_english(value, {}) for value in values)
        case _:
            return False
