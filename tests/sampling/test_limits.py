"""What a run asks for is compared with what there is before its first step, and no counter of steps overflows."""

from types import SimpleNamespace

import numpy as np
import pytest

import xpsample as xps
from xpsample.core.backend import Schedule, StopFlag
from xpsample.core.errors import HyperparameterError
from xpsample.kernels import RWM
from xpsample.sampling import program
from xpsample.sampling.noise import Portable
from xpsample.sampling.program import Program
from xpsample.targets import Target
from xpsample.trace.recorders import Moments

X0 = np.zeros((4, 2))


def log_density(x):
    return -0.5 * (x[..., 0] ** 2 + x[..., 1] ** 2)


def run(x0, draws, **settings):
    return xps.sample(Target(log_density), RWM(1.0), x0, draws, seed=Portable(1), progress=False, **settings)


@pytest.mark.first_tier
@pytest.mark.parametrize("draws", [10**12, 10**18])
def test_draws_that_no_memory_holds(library, draws):
    with pytest.raises(HyperparameterError, match=rf"{draws} draws of \d+ bytes are .* GiB, .*Moments"):
        run(library.array(X0), draws)


def test_rows_are_what_recorders_keep(monkeypatch):
    """A row of `Draws` has 64 bytes; that of `Statistics` 72 more."""
    monkeypatch.setattr(program, "_memory", lambda: 100 * 100)
    assert run(X0, 100, recorders=[xps.Draws()]).draws.shape == (100, 4, 2)
    with pytest.raises(HyperparameterError, match="100 draws of 136 bytes"):
        run(X0, 100)
    assert run(X0, 100, recorders=[Moments()]).draws is None


def test_memory_that_is_not_there_after_all(library, monkeypatch):
    monkeypatch.setattr(program, "_memory", lambda: 2**80)
    with pytest.raises(HyperparameterError, match=r"there is no memory for 10{13} draws \(.*\): use fewer draws"):
        run(library.array(X0), 10**13)


def test_more_steps_than_integers_count(library):
    with pytest.raises(HyperparameterError, match=r"steps exceed the 64-bit counter of"):
        run(library.array(X0), 10**18, burn_in=2**63 - 1, recorders=[Moments()])


def test_more_steps_than_jax_counts_without_64_bits():
    jax = pytest.importorskip("jax")
    with pytest.raises(HyperparameterError, match=r"32-bit counter of jax: .*64-bit types"):
        run(jax.numpy.zeros((4, 2)), 2**31, recorders=[Moments()])


def drive(library, at, recorders=(Moments(),)):
    """Sixteen steps across a number of steps, each kept."""
    target = Target(log_density).prepare(library.array(X0), RWM(1.0).requires)
    program = Program(RWM(1.0), target, recorders, Schedule(at + 8))
    carry = program.init(library.array(X0))
    (moments,) = carry.recorder_states
    moments = moments._replace(moments=moments.moments._replace(count=moments.moments.count + at - 8))
    carry, *_ = target.backend.drive(
        program, carry._replace(recorder_states=(moments,)), None, Portable(3), at - 8, at + 8, StopFlag()
    )
    return carry


@pytest.mark.first_tier
@pytest.mark.parametrize("at", [2**31, 2**32])
def test_steps_are_counted_past_32_bits(library, at):
    carry = drive(library, at)
    assert int(library.host(carry.recorder_states[0].moments.count)) == at + 8
    expected = drive(SimpleNamespace(array=np.asarray), at).state.point.x
    np.testing.assert_allclose(library.host(carry.state.point.x), expected, rtol=1e-9)


def test_native_noise_past_32_bits_is_new(library):
    """Each 2^32 steps of JAX have a key of their own, and single steps the noise of blocks."""
    specs, like = RWM(1.0).noise(library.array(X0)), library.array(X0)
    first, second, third = (
        library.host(library.backend.noise(1, specs, at, at + 16, like)["proposal"]) for at in (0, 2**31, 2**32)
    )
    assert len({block.tobytes() for block in (first, second, third)}) == 3
