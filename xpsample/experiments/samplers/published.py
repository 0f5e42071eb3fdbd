"""Published figures: gradient evaluations after tuning until the error is low, divided by 100.

From github.com/reubenharry/sampler-benchmarks at 7ad0700d414a251cd7609cd0b4d7a8f194c0f68f, its ``results``,
files ``*velocity verlet_precond:True*``, rows ``square`` with ``max`` True: BlackJAX with a diagonal metric, tuned for
1,000 (MALA) to 20,000 steps. 128 chains; of the item response 64; of MALA 4. Infinity: not reached in its run.
"""

import math
from collections.abc import Mapping

NEVER = math.inf

PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "gaussian": {"HMC": 58, "MAMS": 32, "MCLMC": 41},
    "banana": {"HMC": 638, "NUTS": 1244, "MALA": 1405, "MAMS": 143, "MCLMC": 66},
    "brownian-motion": {"HMC": 215, "NUTS": 425, "MALA": 5971, "MAMS": 181, "MCLMC": 102},
    "german-credit": {"HMC": 919, "NUTS": 1108, "MALA": NEVER, "MAMS": 808, "MCLMC": 321},
    "rosenbrock": {"HMC": NEVER, "NUTS": 1803, "MALA": NEVER, "MAMS": 1392, "MCLMC": NEVER},
    "item-response": {"HMC": 771, "NUTS": 812, "MALA": 2495, "MAMS": 631, "MCLMC": 197},
    "stochastic-volatility": {"HMC": 6299, "NUTS": 13_290, "MALA": NEVER, "MAMS": 5510, "MCLMC": 3187},
}
"""Results by target and sampler; a missing target was not measured, or not as it is here."""

LIMITS: Mapping[str, float] = {"HMC": 1.0, "NUTS": 1.1, "MAMS": 1.3}
"""Limits of our results, as multiples of the published ones."""
