"""Writes tests/data/stats-vectors.json: what scipy, or counting all orders, gives for rank tests and spending.

Hodges and Lehmann's rank comes from counting every order of the two samples; levels of the looks from an
integration with many more nodes, held against scipy's multivariate normal distribution where that is precise.
"""

import itertools
import json
import math
import pathlib

import numpy as np
from scipy import stats
from scipy.optimize import brentq

SAMPLES = [
    ("without ties", [20.75, 20.62, 20.91, 20.7, 20.58, 20.85], [20.1, 20.25, 19.98, 20.17, 20.05, 20.21]),
    ("overlapping", [1.1, 2.3, 3.2, 5.8, 4.4], [2.0, 3.0, 1.0, 4.1, 6.0, 7.2, 0.3]),
    ("ties", [1.0, 2.0, 2.0, 3.0, 5.0], [2.0, 2.0, 4.0, 4.0, 1.0, 0.0]),
    ("unequal", [3.1, 4.7], [1.2, 5.1, 3.3, 0.4, 2.2, 9.7, 8.1, 6.3]),
    ("long", [math.sin(1.7 * i) + 0.1 * i for i in range(30)], [math.cos(2.3 * i) for i in range(25)]),
]
CONF = 0.9


def tail_rank(n, m):
    """How many values of U hold at most (1 - CONF) / 2 together, counted from the least."""
    counts = np.zeros(n * m + 1)
    for first in itertools.combinations(range(n + m), n):
        counts[sum(first) - n * (n - 1) // 2] += 1
    return int(np.sum(np.cumsum(counts) / counts.sum() <= (1 - CONF) / 2))


def rank_vector(name, a, b):
    exact = len(set(a + b)) == len(a + b) and len(a) * len(b) <= 400
    method = "exact" if exact else "asymptotic"
    p = {s: stats.mannwhitneyu(a, b, alternative=s, method=method) for s in ("greater", "less")}
    differences = sorted(x - y for x in a for y in b)
    vector = {
        "name": name,
        "a": a,
        "b": b,
        "u": float(p["greater"].statistic),
        "p_greater": float(p["greater"].pvalue),
        "p_less": float(p["less"].pvalue),
        "shift": float(np.median(differences)),
    }
    if len(a) * len(b) <= 60:
        k = tail_rank(len(a), len(b))
        vector["conf"] = CONF
        vector["interval"] = [differences[k - 1], differences[-k]] if k else None
    return vector


def spending_vector(name, spent, alpha, times):
    """Levels by recursive integration with 400 nodes; up to three looks held against the normal distribution."""
    bounds, levels, before = [], [], 0.0
    values, weights, step = np.array([0.0]), np.array([1.0]), times[0]
    for k, t in enumerate(times):
        sd = math.sqrt(step)

        def crosses(z):
            return float(np.sum(weights * stats.norm.sf((z * math.sqrt(t) - values) / sd)))

        z = brentq(lambda z: crosses(z) - (spent(alpha, t) - before), -5, 12, xtol=1e-13)
        before = spent(alpha, t)
        bounds.append(z)
        levels.append(float(stats.norm.sf(z)))
        if k + 1 == len(times):
            break
        low, high = -9 * math.sqrt(t), z * math.sqrt(t)
        nodes, shares = np.polynomial.legendre.leggauss(400)
        at = (high - low) / 2 * nodes + (high + low) / 2
        density = stats.norm.pdf((at[:, None] - values[None, :]) / sd) / sd @ weights
        values, weights, step = at, shares * (high - low) / 2 * density, times[k + 1] - t
    if len(times) <= 3:
        t = np.array(times)
        correlation = np.sqrt(np.minimum.outer(t, t) / np.maximum.outer(t, t))
        stays = stats.multivariate_normal.cdf(bounds, cov=correlation, abseps=1e-9, rng=1)
        assert abs(1 - stays - alpha) < 1e-6, (name, stays)
    return {"spending": name, "alpha": alpha, "times": times, "levels": levels}


def pocock(alpha, t):
    return alpha * math.log(1 + (math.e - 1) * t)


def obrien_fleming(alpha, t):
    return 2 * stats.norm.sf(stats.norm.isf(alpha / 2) / math.sqrt(t))


def main():
    looks = [[0.25, 0.375, 0.5, 0.75, 1.0], [0.25, 0.5, 1.0], [0.5, 1.0]]
    vectors = {
        "ranks": [rank_vector(*sample) for sample in SAMPLES],
        "spending": [
            spending_vector(name, spent, alpha, times)
            for name, spent in (("pocock", pocock), ("obrien-fleming", obrien_fleming))
            for alpha in (0.05, 0.02)
            for times in looks
        ],
    }
    path = pathlib.Path(__file__).parents[2] / "tests/data/stats-vectors.json"
    path.write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main()
