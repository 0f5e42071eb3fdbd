"""A trace that has no kernel says so, whatever a user does with it."""

import copy
import pickle

import numpy as np
import pytest

import xpsample as xps
from xpsample.citation import citation
from xpsample.core.errors import CapabilityError, TraceError, XpsampleError

X0 = np.random.default_rng(0).normal(size=(4, 2))
TARGET = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1), score=lambda x: -x, hvp=lambda x, v: -v)


class Own(xps.MALA):
    """A kernel of a user, whose class no file names."""


def run(kernel, **settings):
    settings = {"seed": 1, "warmup": 20, "progress": False} | settings
    return xps.sample(TARGET, xps.SRMC(kernel, alpha=0.1), X0, 20, **settings)


def made(how, folder):
    if how == "shards":
        return run(xps.MALA(), shards=2)
    run(Own(), checkpoint=folder / "run").save(folder / "run.npz")
    return xps.load(folder / ("run.npz" if how == "a file" else "run"))


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.parametrize("how", ["a file", "a checkpoint", "shards"])
def test_a_trace_without_a_kernel(tmp_path, how):
    trace = made(how, tmp_path)
    why = "each shard was tuned for itself" if how == "shards" else "files hold no kernel with user code"
    assert repr(trace.kernel) == f"<no kernel: {why}>"
    assert "kernel='SRMC(" in repr(trace)
    with pytest.raises(TraceError, match=rf"has no alpha, for {why}.*metadata\['kernel'\]"):
        _ = trace.kernel.alpha
    with pytest.raises(CapabilityError, match=f"got <no kernel: {why}>"):
        xps.sample(TARGET, trace.kernel, trace.draws[-1], 5, seed=2)
    with pytest.raises(XpsampleError, match=f"got <no kernel: {why}>"):
        citation(trace.kernel)
    assert citation(trace.metadata["kernel"]) == citation("srmc", "mala" if how == "shards" else "srmc")
    for copied in (copy.deepcopy(trace), pickle.loads(pickle.dumps(trace))):
        assert repr(copied.kernel) == repr(trace.kernel)
