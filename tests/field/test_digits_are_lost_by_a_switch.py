"""A switch of the library that takes digits from the density without a word: torch.autocast around a run, or inside."""

import warnings

import numpy as np
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


def regression(lib, few, rows=200):
    """A linear regression, its product of matrices in few digits or not; the log density is -100 near its mode."""
    rng = np.random.default_rng(0)
    design = rng.normal(size=(rows, 2)).astype(np.float32)
    y = (design @ [1.0, -1.0] + rng.normal(size=rows)).astype(np.float32)
    design, y = lib.asarray(design), lib.asarray(y)

    def log_density(x):
        if lib is not torch:
            mean = (x.astype(few) @ design.T.astype(few)).astype("float32") if few else x @ design.T
        elif few:
            with torch.autocast("cpu", dtype=few):
                mean = x @ design.T
            mean = mean.float()
        else:
            mean = x @ design.T
        return -0.5 * ((y - mean) ** 2).sum(-1)

    return xps.Target(log_density), lib.asarray(np.tile(np.float32([1.0, -1.0]), (4, 1)))


def first_lines(target, x0):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trace = xps.sample(target, xps.RWM(0.15), x0, 1500, seed=1, progress=False)
    return [f.kind for f in trace.diagnose()], [str(w.message) for w in caught]


@pytest.mark.parametrize("name", ["torch", "jax"])
@pytest.mark.parametrize("few", ["bfloat16", "float16", None])
def test_digits_that_a_density_gives_away_are_named(name, few):
    """And one that keeps its digits is not told off."""
    lib = torch if name == "torch" else pytest.importorskip("jax.numpy")
    kinds, lines = first_lines(*regression(lib, few and getattr(lib, few)))
    if few is None:
        assert "precision" not in kinds and not any("computes in" in line for line in lines)
    else:
        assert kinds[0] == "precision" and "computes in " + few in lines[0]
        assert lines[0].startswith("at the start, log densities of size") and f"numbers of {few}" in lines[0]


def test_few_digits_of_a_small_log_density_are_enough():
    """Numbers of bfloat16 near 1 are 0.008 apart, far less than the 0.05 from which ratios of densities suffer."""
    target, x0 = regression(torch, torch.bfloat16, rows=4)
    kinds, _ = first_lines(target, x0)
    assert "precision" not in kinds
