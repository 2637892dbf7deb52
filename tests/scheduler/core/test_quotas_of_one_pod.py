"""A wave of one pod needs no order of all nodes: the quotas admit the same rows."""

import random

import numpy as np
import pytest

from scheduler.core.framework.domain_quotas import DomainQuota, Preference, Quotas, SkewLimit
from scheduler.core.nodes.node_table import Ints
from scheduler.core.topology.topology import Domains

NODES = 12


def domains(rng: random.Random) -> Domains:
    """Draw the domains of one key; some nodes have none."""
    count = rng.randint(1, 4)
    codes = np.array([rng.randint(-1, count - 1) for _ in range(NODES)], np.int64)
    values = tuple(f"d{at}" for at in range(count))
    return Domains("key", codes, values, values)


def present(rng: random.Random, of: Domains) -> Ints:
    return np.array([rng.randint(0, 3) for _ in of.values], np.int64)


def quotas(rng: random.Random) -> Quotas:
    limits, skews, preferences = list[DomainQuota](), list[SkewLimit](), list[Preference]()
    for _ in range(rng.randint(0, 2)):
        of = domains(rng)
        most = [*(rng.randint(0, 2) for _ in of.values), rng.choice((0, 9))]
        limits.append(DomainQuota(of, np.array(most, np.int64)))
    for _ in range(rng.randint(0, 2)):
        of = domains(rng)
        counting = np.array([rng.random() < 0.8 for _ in of.values])
        skews.append(
            SkewLimit(of, present(rng, of), counting, rng.randint(1, 2), rng.random() < 0.2)
        )
    if rng.random() < 0.5:
        limits, skews = [], []
        for _ in range(rng.randint(1, 2)):
            of = domains(rng)
            preferences.append(Preference(of, present(rng, of) if rng.random() < 0.7 else None))
    return Quotas.of(limits, skews, preferences, single=False)


def passes_filter(limits: Quotas, row: int) -> bool:
    """Evaluate a node as the filters of affinity and spread do."""
    limited = all(int(it.most[it.domains.codes[row]]) > 0 for it in limits.domain_quotas)
    return limited and all(
        int(it.quota.most[it.domains.codes[row]]) > 0 for it in limits.skew_limits
    )


@pytest.mark.parametrize("seed", range(400))
def test_one_pod_goes_where_a_wave_of_one_would(seed: int) -> None:
    rng = random.Random(seed)
    limits = quotas(rng)
    passed = [row for row in range(NODES) if passes_filter(limits, row)]
    if not passed:
        return  # no node fits, and no wave is requested
    rows = np.array(rng.sample(passed, rng.randint(1, len(passed))), np.int64)
    room = np.array([rng.randint(1, 3) for _ in rows], np.int64)

    is_open = limits.open_to_one(rows)

    if is_open is None:
        assert limits.preferences
        return
    shared = limits.share(rows, room, 1)
    assert np.flatnonzero(shared).tolist() == np.flatnonzero(is_open)[:1].tolist()


@pytest.mark.parametrize("seed", range(50))
def test_no_row_is_open_that_a_filter_excludes(seed: int) -> None:
    limits = quotas(random.Random(seed))
    is_open = limits.open_to_one(np.arange(NODES))
    if is_open is not None and not limits.preferences:
        assert is_open.tolist() == [passes_filter(limits, row) for row in range(NODES)]


def test_the_cases_that_need_the_order_are_few() -> None:
    asked = [quotas(random.Random(seed)).open_to_one(np.arange(NODES)) for seed in range(300)]
    assert sum(it is None for it in asked) < 150
    assert any(it is not None and not it.all() and it.any() for it in asked)
