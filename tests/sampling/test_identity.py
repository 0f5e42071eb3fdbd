"""What the numbers of a run depend on beside the run itself."""

import numpy as np

from xpsample.sampling.identity import environment


def test_the_environment(library):
    found = environment(library.array(np.zeros((2, 1))))
    assert found[library.backend.name] != "unknown" and len(found["devices"]) == 1
    assert ":" not in found["devices"][0]
