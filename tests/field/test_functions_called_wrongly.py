"""What a factory or a choice of derivatives says when it is called wrongly: in words, and with a line that runs."""

import re

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.errors import CapabilityError, HyperparameterError
from xpsample.zoo.ising import ising_lattice
from xpsample.zoo.potts import potts


@pytest.mark.parametrize("make", [lambda shape: ising_lattice(shape, 0.3), lambda shape: potts(shape, 3, 0.3)])
def test_a_lattice_by_its_width_alone(make):
    with pytest.raises(HyperparameterError, match=r"such as \(8, 8\), or \(8,\) for a ring; got 8"):
        make(8)
    assert make((8, 8)) is not None and make(np.asarray([8])) is not None


def test_the_advice_for_a_missing_hvp_is_a_call_that_exists():
    def score(x):
        return -x

    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), gradient=xps.Analytic(score))
    kernel = xps.SRMC(xps.MALA(0.1), 0.1, tilt=xps.Exact())
    with pytest.raises(CapabilityError, match=r"pass Analytic\(score, hvp_function=\.\.\.\)") as refused:
        xps.sample(target, kernel, np.zeros((2, 2)), 3, seed=1)
    keyword = re.search(r"Analytic\(score, (\w+)=", str(refused.value)).group(1)
    assert xps.Analytic(score, **{keyword: lambda x, v: -v}) is not None
