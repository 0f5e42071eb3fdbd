"""What a factory says when it is called wrongly: in words, and with a line that runs."""

import numpy as np
import pytest

from xpsample.core.errors import HyperparameterError
from xpsample.zoo.ising import ising_lattice, potts


@pytest.mark.parametrize("make", [lambda shape: ising_lattice(shape, 0.3), lambda shape: potts(shape, 3, 0.3)])
def test_a_lattice_by_its_width_alone(make):
    with pytest.raises(HyperparameterError, match=r"such as \(8, 8\), or \(8,\) for a ring; got 8"):
        make(8)
    assert make((8, 8)) is not None and make(np.asarray([8])) is not None
