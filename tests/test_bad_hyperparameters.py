"""What bad hyperparameters get: an error that names the argument, what was got and what is expected."""

import numpy as np
import pytest

import xpsample as xps
from tests.bad_input_support import MATRICES, NAN, PER_CHAIN, gaussian, run
from xpsample.core.errors import BackendError, GradientError, HyperparameterError, NoiseError
from xpsample.kernels import HMC, MALA, MAMS, MCLMC, NUTS, PCN, RWM, ULA, IndependentMH, UnderdampedLangevin
from xpsample.srmc import SRMC, PowerLaw
from xpsample.targets import Tempered

OUT_OF_RANGE = [
    (lambda: RWM(0.0), r"step_size must be greater than 0; got 0\.0"),
    (lambda: RWM(-1.0), "step_size must be greater than 0; got -1"),
    (lambda: RWM(NAN), "step_size must be greater than 0; got nan"),
    (lambda: ULA(-0.1), r"step_size must be greater than 0; got -0\.1"),
    (lambda: MALA(-0.1), r"step_size must be greater than 0; got -0\.1"),
    (lambda: HMC(-0.1, 3), r"step_size must be greater than 0; got -0\.1"),
    (lambda: UnderdampedLangevin(-0.1), r"step_size must be greater than 0; got -0\.1"),
    (lambda: UnderdampedLangevin(0.1, friction=0.0), "friction must be greater than 0"),
    (lambda: UnderdampedLangevin(0.1, friction=-1.0), "friction must be greater than 0; got -1"),
    (lambda: PCN(0.0), "beta must be greater than 0 and at most 1; got 0"),
    (lambda: PCN(1.5), r"beta must be greater than 0 and at most 1; got 1\.5"),
    (lambda: MAMS(-0.1, 1.0), r"step_size must be greater than 0; got -0\.1"),
    (lambda: MAMS(0.1, 0.0), "length must be greater than 0; got 0"),
    (lambda: MCLMC(-0.1, 1.0), r"step_size must be greater than 0; got -0\.1"),
    (lambda: MCLMC(0.1, 0.0), "length must be greater than 0; got 0"),
    (lambda: HMC(0.5, length=1e300), "a length of 1e.300 is 2e.300 step sizes"),
    (lambda: HMC(0.5, 3, length=1.0), "HMC takes steps or length"),
    (lambda: NUTS(-0.1), r"step_size must be greater than 0; got -0\.1"),
    (lambda: NUTS(0.1, max_depth=0), "max_depth must be a positive integer and at most 30; got 0"),
    (lambda: NUTS(0.1, max_depth=31), "max_depth must be a positive integer and at most 30; got 31"),
    (lambda: HMC(0.1, 0), "steps must be a positive integer; got 0"),
    (lambda: HMC(0.1, 2.0), r"steps must be a positive integer; got 2\.0"),
    (lambda: HMC(0.1, True), "steps must be a positive integer; got True"),
    (lambda: SRMC(RWM(1.0), alpha=-0.5), r"alpha must be at least 0; got -0\.5"),
    (lambda: SRMC(RWM(1.0), alpha=NAN), "alpha must be at least 0; got nan"),
    (lambda: PowerLaw(0.5), r"rho must be greater than 0\.5 and at most 1; got 0\.5"),
    (lambda: PowerLaw(1.1), r"rho must be greater than 0\.5 and at most 1; got 1\.1"),
    (lambda: PowerLaw(scale=0.0), "scale must be greater than 0"),
    (lambda: PowerLaw(offset=-1.0), "offset must be at least 0"),
    (lambda: Tempered(gaussian(), -1), "beta must be at least 0; got -1"),
    (lambda: xps.BatchMeans(0), "size must be a positive integer; got 0"),
    (lambda: xps.FiniteDifference(eps=0.0), "eps must be greater than 0; got 0"),
    (lambda: xps.FiniteDifference(scheme="backward"), "scheme is 'central' or 'forward'; got 'backward'"),
]


@pytest.mark.parametrize(("make", "message"), OUT_OF_RANGE)
def test_hyper_parameters_out_of_range(make, message):
    with pytest.raises((HyperparameterError, GradientError), match=message):
        make()


def test_one_entry_of_an_array_out_of_range(library):
    for make, message in (
        (lambda: RWM(library.array([0.1, -0.1])), "step_size must be greater than 0"),
        (lambda: SRMC(RWM(1.0), alpha=library.array([0.0, -1.0])), "alpha must be at least 0"),
        (lambda: Tempered(gaussian(), library.array([1.0, -1.0])), "beta must be at least 0"),
    ):
        with pytest.raises(HyperparameterError, match=message):
            make()


@pytest.mark.parametrize(("make", "name"), MATRICES)
def test_matrices_that_are_no_covariance(library, make, name):
    for matrix, message in [
        ([[1.0, 0.5], [0.0, 1.0]], r"must be symmetric; largest difference 0\.5"),
        ([[1.0, 2.0], [2.0, 1.0]], "must be positive definite"),
        ([[0.0, 0.0], [0.0, 0.0]], "must be positive definite"),
        ([1.0, -1.0], "must be positive"),
        ([1.0, 0.0], "must be positive"),
        ([[1.0, 0.0]], r"is a positive number or has shape \(dim,\) or \(dim, dim\); got \(1, 2\)"),
    ]:
        with pytest.raises(HyperparameterError, match=f"{name} {message}"):
            make(library.array(matrix))


@pytest.mark.parametrize(("make", "name"), MATRICES)
def test_matrices_of_another_dimension_dtype_or_library_than_the_positions(make, name):
    for matrix in (np.ones(1), np.ones(3), np.eye(1), np.eye(3)):
        with pytest.raises(HyperparameterError, match=rf"{name}.*\({len(matrix)},.*2"):
            run(kernel=make(matrix))
    with pytest.raises(HyperparameterError, match=f"{name}.* is float64, the positions float32: convert it"):
        run(kernel=make(np.eye(2)), x0=np.zeros((4, 2), dtype="float32"))
    torch = pytest.importorskip("torch")
    with pytest.raises(BackendError, match=f"{name} is a torch array and the positions are numpy"):
        run(kernel=make(torch.ones(2, dtype=torch.float64)))


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (PCN(0.5, mean=np.zeros(3)), "mean"),
        (IndependentMH(mean=np.zeros(3)), "mean"),
        (SRMC(RWM(0.5), alpha=1.0, theta=np.zeros((4, 3))), "theta"),
    ],
)
def test_vectors_of_another_dimension_than_the_positions(kernel, name):
    with pytest.raises(HyperparameterError, match=name):
        run(kernel=kernel)


@pytest.mark.parametrize(("make", "name"), PER_CHAIN)
def test_arrays_of_another_shape_dtype_or_library_than_the_chains(make, name):
    message = rf"{name} of shape .* does not broadcast against the chain axes \(4,\) of the positions \(4, 2\)"
    for shape in ((3,), (2,), (1, 4)):
        with pytest.raises(HyperparameterError, match=message):
            run(kernel=make(np.full(shape, 0.75)))
    with pytest.raises(HyperparameterError, match=f"{name} is float64, the positions float32: convert it"):
        run(kernel=make(np.full((4,), 0.75)), x0=np.zeros((4, 2), dtype="float32"))
    torch = pytest.importorskip("torch")
    with pytest.raises(BackendError, match=f"{name} is a torch array and the positions are numpy: use one library"):
        run(kernel=make(torch.full((4,), 0.75, dtype=torch.float64)))


def test_an_inverse_temperature_that_does_not_broadcast_against_the_chains():
    with pytest.raises(HyperparameterError, match=r"beta.*broadcast"):
        run(Tempered(gaussian(), np.full((3,), 0.5)))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("draws", 0, "draws must be a positive integer; got 0"),
        ("draws", 2.0, r"draws must be a positive integer; got 2\.0"),
        ("draws", True, "draws must be a positive integer; got True"),
        ("burn_in", -1, "burn_in must be an integer of at least 0; got -1"),
        ("thinning", 0, "thinning must be a positive integer; got 0"),
        ("recorders", (xps.Draws(), xps.Draws()), r"recorders need different names; two are called 'draws'"),
        *(("seed", seed, f"a seed is a non-negative integer; got {seed!r}") for seed in (-1, True, 0.5, None)),
    ],
)
def test_settings_of_a_run(setting, value, message):
    with pytest.raises((HyperparameterError, NoiseError), match=message):
        run(**{setting: value})


def test_replayed_noise_that_ends_too_early_or_has_another_shape_or_library(library):
    def noise(*shape):
        accept = np.full(shape[:2], 0.5)
        return xps.Replay({"proposal": library.array(np.zeros(shape)), "accept": library.array(accept)})

    x0 = library.array(np.zeros((4, 2)))
    message = r"Replay holds steps 0 to 2 of noise 'proposal'; steps [12] to 3 were requested"
    with pytest.raises(NoiseError, match=message):
        run(x0=x0, seed=noise(2, 4, 2))
    assert run(x0=x0, draws=2, seed=noise(2, 4, 2)).draws.shape == (2, 4, 2)
    message = r"'proposal' has shape \(3, 4, 5\); the kernel asks for \(steps, \*\(4, 2\)\)"
    with pytest.raises(NoiseError, match=message):
        run(x0=x0, seed=noise(3, 4, 5))
    if library.name == "torch":
        with pytest.raises(BackendError, match=r"torch.*numpy"):
            run(seed=noise(3, 4, 2))
