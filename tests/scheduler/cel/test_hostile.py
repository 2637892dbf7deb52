"""Hostile expressions in ResourceClaims: none may delay other tenants."""

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cel.errors import EvaluationError, SelectorError
from scheduler.cel.selectors import COST, LONGEST, compile_selector
from scheduler.cel.times import parse_duration
from tests.scheduler.cel.devices import device
from tests.support.counting import calls
from tools.testing.effort import examples

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
DEVICE = device(model="a" * 64, index=1)

CALLS = 8 * COST
"""Maximum function calls of one evaluation; uncharged work would exceed it."""

MEMORY = 64 * 1024 * 1024


def doubled(first: str, twice: str, last: str, times: int = 40) -> str:
    """Return an expression in which each variable uses the previous one twice."""
    steps = [f"cel.bind(a0, {first}, "]
    steps += [f"cel.bind(a{at}, {twice.format(f'a{at - 1}')}, " for at in range(1, times)]
    return "".join(steps) + last.format(f"a{times - 1}") + ")" * times


def text_of(length: int, body: str, of: str = "a" * 50) -> str:
    """Return the body with `s`, a text of at least this length that costs little to make."""
    times = 1 + (length // len(of)).bit_length()
    return doubled(f"'{of}'", "{0} + {0}", f"cel.bind(s, {{0}}, {body})", times)


HOSTILE = {
    "comprehensions within each other": "".join(f"{TEN}.all({v}, " for v in "abcdef")
    + "a + b + c + d + e + f > 0"
    + ")" * 6,
    "a long range": "lists.range(1000000000000).exists(x, x < 0)",
    "ranges within each other": (
        "lists.range(300).exists(x, lists.range(300).exists(y, x < y - 999))"
    ),
    "a text that doubles": doubled("'x'", "{0} + {0}", "{0} == ''"),
    "a list that doubles": doubled("[1]", "{0} + {0}", "{0} == []"),
    "a tree that doubles, compared": doubled("[1]", "[{0}, {0}]", "{0} == {0}"),
    "a tree that doubles, searched": doubled("[1]", "[{0}, {0}]", "{0} in [{0}, {0}]"),
    "a tree that doubles, flattened": doubled("[1]", "[{0}, {0}]", "{0}.flatten(99) == []"),
    "a tree of optionals that doubles": doubled(
        "optional.of(1)", "optional.of([{0}, {0}])", "{0} == {0}"
    ),
    "a map that doubles": doubled("{'a': 1}", "{{'a': {0}, 'b': {0}}}", "{0} == {0}"),
    "a regular expression that backtracks": text_of(
        9000, "lists.range(900).exists(x, s.matches('(a*)*(a|aa)*b'))"
    ),
    "regular expressions put together": (
        "lists.range(9000).exists(x, 'a'.matches('((a{30}){30})?' + string(x)))"
    ),
    "all places of an empty match": text_of(
        9000, "lists.range(900).exists(x, s.findAll('').size() == 0)"
    ),
    "replaced by itself": text_of(3000, "s.replace('a', s).replace('a', s) == ''"),
    "split and split again": text_of(5000, "lists.range(1000).exists(x, s.split('') == [])"),
    "durations of many digits": text_of(
        9000, "lists.range(900).exists(x, duration(s + 'h') == duration('0'))", "9" * 50
    ),
    "durations of many digits without a unit": text_of(
        9000, "lists.range(900).exists(x, duration(s) == duration('0'))", "1" * 50
    ),
    "durations of many parts": text_of(
        9000, "lists.range(900).exists(x, duration(s) == duration('1h'))", "0h" * 25
    ),
    "made-up time zones": (
        "lists.range(300).exists(x, lists.range(300).exists(y,"
        " timestamp(x).getHours('A' + string(y)) < 0))"
    ),
    "joined": text_of(5000, "lists.range(1000).map(x, s).join() == ''"),
    "long texts compared": text_of(8000, "lists.range(5000).exists(x, s + 'b' == s + 'c')"),
    "long texts sorted": text_of(
        5000, "lists.range(999).map(i, i % 2 == 0 ? s + 'x' : s + 'y').sort() == []"
    ),
    "all distinct": "lists.range(4000).distinct() == []",
    "sets": "cel.bind(s, lists.range(2000), sets.contains(s, s))",
    "huge quantities": (
        "lists.range(50000).exists(x, quantity('1e1000').isLessThan(quantity('1e999')))"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_expression_stops_where_it_costs_too_much(name: str) -> None:
    selector = compile_selector(HOSTILE[name])

    def evaluate() -> None:
        with pytest.raises(SelectorError, match=f"evaluating one device costs more than {COST}"):
            selector.evaluate("d", DEVICE)

    assert calls(evaluate) < CALLS


@pytest.mark.parametrize("name", HOSTILE)
def test_an_expression_takes_little_memory(name: str) -> None:
    selector = compile_selector(HOSTILE[name])
    tracemalloc.start()
    try:
        with suppress(SelectorError):
            selector.evaluate("d", DEVICE)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < MEMORY


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4000 + "true" + ")" * 4000,
        "!" * 9000 + "true",
        "-" * 9000 + "1 < 0",
        "[" * 4000 + "]" * 4000 + " == []",
        "device" + ".a" * 4000,
        "device" + "[0]" * 3000,
        "+".join(["1"] * 4000) + " == 0",
        " && ".join(["true"] * 1200),
        "true ? " * 700 + "true" + " : true" * 700,
        "false ? true : " * 600 + "true",
        "cel.bind(x,1," * 600 + "true" + ")" * 600,
        "{" * 5000,
        "'" * 5001,
        '"""' + "\\" * 5000,
    ],
    ids=lambda text: text[:16],
)
def test_no_depth_and_no_length_is_too_much_for_the_parser(text: str) -> None:
    assert len(text) < LONGEST
    try:
        selector = compile_selector(text)
    except SelectorError:
        return

    def evaluate() -> None:
        with suppress(SelectorError):
            selector.evaluate("d", DEVICE)

    assert calls(evaluate) < CALLS


WRITTEN_WORDS = """
device .attributes .capacity .driver ['d'] .model .index .?index [? ] ( ) [ ] { } , : ? && || ! - +
* / % < <= == != in 1 2u 1.5 -1 'a' b'a' r'\\d' null true false has( .exists(x, .all(k,v, .map(x,
.filter(x, .sortBy(x, .optMap(x, cel.bind(x, x optional.of( .orValue( .hasValue() .size() size(
type( int( string( .matches( .split( .join( .sum() .first() .flatten() .distinct() quantity(
semver( .isGreaterThan( .major() ip( cidr( .ip() sets.contains( lists.range( .slice( .replace(
.charAt( .substring( .indexOf(
"""
WORDS = WRITTEN_WORDS.split()


def test_a_number_without_a_unit_is_read_once() -> None:
    """An expression that tries each digit once for each one before it takes a quarter of an hour.

    It does so in one call, which nothing can interrupt.
    """
    with pytest.raises(EvaluationError):
        parse_duration("1" * 200_000)


def test_a_long_chain_of_names_is_no_type() -> None:
    with pytest.raises(SelectorError):
        compile_selector("google" + ".protobuf" * 1000 + ".Duration == int")


@examples(40, 400)
@given(st.lists(st.sampled_from(WORDS), max_size=20))
def test_any_words_are_judged_or_refused(words: list[str]) -> None:
    text = " ".join(words)
    text += ")" * max(0, text.count("(") - text.count(")"))
    try:
        assert isinstance(compile_selector(text).evaluate("d", DEVICE), bool)
    except SelectorError as error:
        assert str(error)  # noqa: PT017 - most are refused


@examples(40, 400)
@given(st.text(max_size=40))
def test_any_text_is_judged_or_refused(text: str) -> None:
    try:
        assert isinstance(compile_selector(text).evaluate("d", DEVICE), bool)
    except SelectorError as error:
        assert str(error)  # noqa: PT017 - nearly all are refused


WRITTEN_OPERANDS = """
1 2u 1.5 0 'a' b'a' true null [1] ['b','a'] {'a':1} optional.of(1) optional.none() int
quantity('1') semver('1.0.0') ip('::1') cidr('10.0.0.0/8') device device.attributes
device.attributes['d'].model
"""
OPERANDS = WRITTEN_OPERANDS.split()

WRITTEN_FORMS = """
{0}=={1} {0}!={1} {0}<{1} {0}>={1} {0}+{1} {0}-{1} {0}*{1} {0}/{1} {0}%{1} [{0}]==[{1}] !{0} -{0}
({0})in({1}) {0}[{1}] {0}&&{1} {0}||{1} {0}?{1}:{1} {0}.a has({0}.a) {0}.?a {0}[?{1}]
size({0}) type({0})==type({1}) int({0}) uint({0}) double({0}) string({0}) bool({0}) bytes({0})
{0}.exists(x,x=={1}) {0}.map(k,k,k) {0}.all(k,v,k=={1}) {0}.transformMap(k,v,v) {0}.sortBy(x,x)
{0}.transformMapEntry(k,v,{1}) {0}.transformList(k,v,v) {0}.sort() {0}.sum() {0}.max() {0}.min()
{0}.isSorted() {0}.indexOf({1}) {0}.lastIndexOf({1}) {0}.charAt({1}) {0}.substring({1})
{0}.slice({1},{1}) {0}.flatten({1}) {0}.flatten() {0}.distinct() {0}.reverse() {0}.first()
{0}.last() lists.range({0}) {0}.join({1}) {0}.join() {0}.split({1}) {0}.split('',{1})
{0}.replace({1},{1}) {0}.replace('a','b',{1}) {0}.matches({1}) matches({0},{1}) {0}.find({1})
{0}.findAll({1}) {0}.findAll('a',{1}) {0}.contains({1}) {0}.startsWith({1}) {0}.endsWith({1})
{0}.trim() {0}.lowerAscii() {0}.upperAscii() strings.quote({0}) sets.contains({0},{1})
sets.equivalent({0},{1}) sets.intersects({0},{1}) {0}.compareTo({1}) {0}.isLessThan({1})
{0}.isGreaterThan({1}) {0}.add({1}) {0}.sub({1}) sign({0}) {0}.asInteger() {0}.isInteger()
{0}.asApproximateFloat() {0}.major() {0}.minor() {0}.patch() semver({0},{1}) isSemver({0})
quantity({0}) isQuantity({0}) ip({0}) isIP({0}) ip.isCanonical({0}) cidr({0}) isCIDR({0})
{0}.containsIP({1}) {0}.containsCIDR({1}) {0}.family() {0}.masked() {0}.ip() {0}.prefixLength()
{0}.isGlobalUnicast() {0}.isLoopback() {0}.isUnspecified() {0}.isLinkLocalMulticast()
{0}.isLinkLocalUnicast() {0}.orValue({1}) {0}.or({1}) {0}.value() {0}.hasValue()
optional.ofNonZeroValue({0}) {0}.optMap(x,x) {0}.optFlatMap(x,x) optional.unwrap({0})
{0}.unwrapOpt() [?{0}] {{?'a':{0}}} {{{0}:1}} cel.bind(x,{0},x) dyn({0})
"""
FORMS = WRITTEN_FORMS.split()


@pytest.mark.parametrize("form", FORMS)
def test_every_function_takes_or_refuses_values_of_any_type(form: str) -> None:
    for one in OPERANDS:
        for other in OPERANDS[::3] if "{1}" in form else ("",):
            selector = compile_selector(f"type({form.format(one, other)}) == int")
            with suppress(SelectorError):
                assert selector.evaluate("d", DEVICE) in {True, False}
