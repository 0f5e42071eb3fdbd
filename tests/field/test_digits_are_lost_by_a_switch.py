"""A switch of the library that takes digits from the density without a word: torch.autocast around a run."""

import pytest

import xpsample as xps
from xpsample.core.errors import BackendError

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kernel", [xps.MALA(0.5), xps.RWM(0.5)], ids=lambda k: type(k).__name__)
def test_autocast_is_refused(kernel):
    """A product of float32 matrices comes in bfloat16, with three digits, and is float32 again after a sum."""
    root = torch.tensor([[1.0, 0.3], [0.0, 1.0]])
    target = xps.Target(lambda x: -0.5 * torch.sum((x @ root).float() ** 2, -1))
    x0 = torch.zeros(4, 2)
    xps.sample(target, kernel, x0, 10, seed=1, progress=False)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(BackendError, match=r"torch\.autocast is on"):
        xps.sample(target, kernel, x0, 10, seed=1, progress=False)
