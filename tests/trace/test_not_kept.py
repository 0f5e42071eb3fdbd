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


def from_a_file(folder):
    trace = xps.sample(TARGET, xps.SRMC(Own(), alpha=0.1), X0, 20, seed=1, warmup=20, progress=False)
    trace.save(folder / "run.npz")
    return xps.load(folder / "run.npz")


def from_a_checkpoint(folder):
    kernel = xps.SRMC(Own(), alpha=0.1)
    xps.sample(TARGET, kernel, X0, 20, seed=1, warmup=20, progress=False, checkpoint=folder / "run")
    return xps.load(folder / "run")


def of_shards(folder):
    kernel = xps.SRMC(xps.MALA(), alpha=0.1)
    return xps.sample(TARGET, kernel, X0, 20, seed=1, warmup=20, progress=False, shards=2)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.parametrize("made", [from_a_file, from_a_checkpoint, of_shards])
def test_a_trace_without_a_kernel(tmp_path, made):
    trace = made(tmp_path)
    own = "files hold no kernel with user code"
    why = "each shard was tuned for itself" if made is of_shards else own
    assert repr(trace.kernel) == f"<no kernel: {why}>"
    assert "kernel='SRMC(" in repr(trace)
    with pytest.raises(TraceError, match=rf"has no alpha, for {why}.*metadata\['kernel'\]"):
        _ = trace.kernel.alpha
    with pytest.raises(CapabilityError, match=f"got <no kernel: {why}>"):
        xps.sample(TARGET, trace.kernel, trace.draws[-1], 5, seed=2)
    with pytest.raises(XpsampleError, match=f"got <no kernel: {why}>"):
        citation(trace.kernel)
    assert citation(trace.metadata["kernel"]) == citation("srmc", "mala" if made is of_shards else "srmc")
    for copied in (copy.deepcopy(trace), pickle.loads(pickle.dumps(trace))):
        assert repr(copied.kernel) == repr(trace.kernel)
