"""What bad input gets: an error before the first step whose message says what was found and what would help."""

import importlib.util

import numpy as np
import pytest

import xpsample as xps
from tests.bad_input_support import NAN, gaussian, log_density, run, score
from xpsample.core.errors import (
    BackendError,
    CapabilityError,
    FunctionError,
    GradientError,
    HyperparameterError,
    LogDensityError,
    PositionError,
    XpsampleError,
)
from xpsample.core.registry import backend_named, check_same_home
from xpsample.gradients import NativeGradient
from xpsample.kernels import HMC, MALA, PCN, RWM, ULA, IndependentMH, UnderdampedLangevin
from xpsample.srmc import SRMC
from xpsample.targets import Capability, Exact, Shift, Tempered

ROOT_OF_X = xps.Target(lambda x: np.log(x[..., 0]))


# ---- positions, targets, kernels and recorders -----------------------------------------------------------------------

SHAPE, FLOATING = r"shape \(\*chains, dim\) with dim >= 1; got \(.*\)", "real floating array; got dtype"


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((4, 2), "int64", rf"{FLOATING} int64 \(convert the start positions\)"),
        ((4, 2), "bool", f"{FLOATING} bool"),
        ((4, 2), "complex128", f"{FLOATING} complex128"),
        ((), "float64", SHAPE),
        ((4, 0), "float64", SHAPE),
    ],
)
def test_positions(library, shape, dtype, message):
    with pytest.raises(PositionError, match=message):
        run(x0=library.array(np.zeros(shape, dtype=dtype)))


def named(recorder):
    return f"is the name of the trace's {recorder}: rename the"


SEQUENCE = "recorders must be a sequence of recorders"
ARRAYS = r"the function of Record\('r'\) must give arrays; got "
A_KERNEL = r"kernel must be a Kernel, such as RWM\(0\.5\) or your own; got "
NUMPY_LENDS, UNKNOWN_LENDS = (xps.Target(log_density, gradient=xps.Via(name)) for name in ("numpy", "mlx"))


@pytest.mark.parametrize(
    ("argument", "value", "error", "message"),
    [
        ("x0", [[0.0, 0.0]], BackendError, r"got list; make an array of it, such as numpy.asarray\(x0\)"),
        ("x0", {"a": np.zeros((4, 2))}, BackendError, r"got dict; put its values side by side into one array \(\*ch"),
        ("x0", np.zeros((0, 2)), PositionError, r"at least one chain; got shape \(0, 2\)"),
        ("x0", np.zeros((4, 2), dtype="float16"), PositionError, "must be float32 or float64; got dtype float16"),
        ("x0", np.full((4, 2), np.inf), PositionError, "must be finite"),
        ("target", log_density, CapabilityError, r"must be a target; got <function.*: wrap a log density as Target"),
        ("target", xps.Target(lambda x: 0.0), LogDensityError, "must be an array of the positions' library; got float"),
        ("target", NUMPY_LENDS, CapabilityError, "numpy has no automatic differentiation to lend"),
        ("target", UNKNOWN_LENDS, BackendError, "no backend is registered for 'mlx'; registered: "),
        ("kernel", RWM, CapabilityError, "got the class RWM, not one of its values"),
        *(("kernel", kernel, CapabilityError, A_KERNEL) for kernel in (RWM, "RWM", None)),
        ("recorders", None, HyperparameterError, rf"{SEQUENCE}, such as \(Draws\(\), Moments\(\)\); got None"),
        ("recorders", xps.Moments(), HyperparameterError, f"{SEQUENCE}.*; got Moments"),
        *(
            ("recorders", value, HyperparameterError, SEQUENCE)
            for value in (xps.Moments, "draws", {"m": xps.Moments()})
        ),
        ("recorders", [xps.Moments], HyperparameterError, "must be a Recorder, such as Draws.*; got the class Moments"),
        ("recorders", [xps.Record("draws", lambda s: s.point.x)], HyperparameterError, named("draws")),
        ("recorders", [xps.Moments("statistics")], HyperparameterError, named("statistics")),
        *(("recorders", [xps.Record("r", lambda s, v=v: v)], FunctionError, ARRAYS) for v in (1.0, None, "x", {})),
    ],
)
def test_arguments_of_a_run(argument, value, error, message):
    with pytest.raises(error, match=message):
        run(**{"kernel": MALA(0.1), argument: value})


def test_a_check_of_a_target_made_of_another_is_refused():
    with pytest.raises(XpsampleError, match="check=True compares the score of a Target"):
        run(Tempered(gaussian(), 0.5), MALA(0.1), check=True)


# ---- functions -------------------------------------------------------------------------------------------------------

LOG_SHAPE = r"must have shape \(4,\) for positions \(4, 2\); got"


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("log_density", lambda xp, x: -0.5 * xp.sum(x * x), rf"{LOG_SHAPE} \(\).*Sum over the last axis"),
        ("log_density", lambda xp, x: -0.5 * x * x, rf"{LOG_SHAPE} \(4, 2\)"),
        ("log_density", lambda xp, x: -0.5 * x @ x, r"failed at the start.*\(4, 2\).*lift a function .* by batched"),
        ("log_density", lambda xp, x: xp.astype(log_density(x), xp.float32), "keep the positions' dtype float64; got"),
        ("score", lambda xp, x: -xp.sum(x, axis=-1), r"score must have shape \(4, 2\) for positions .*; got \(4,\)"),
        ("score", lambda xp, x: xp.astype(-x, xp.float32), "score must keep the positions' dtype float64; got float32"),
    ],
)
@pytest.mark.parametrize("kernel", [RWM(1.0), HMC(0.1, 2)], ids=["RWM", "HMC"])
def test_functions_of_another_shape_or_dtype(library, name, function, message, kernel):
    target = gaussian(**{name: lambda x: function(library.xp, x)})
    with pytest.raises(LogDensityError, match=message):
        run(target, MALA(0.1) if name == "score" else kernel, library.array(np.zeros((4, 2))))


def test_values_that_are_not_finite_at_the_start_are_named(library):
    xp, start = library.xp, np.zeros((2, 3, 2))
    start[0, 1], start[1, 2] = [1, 0], [1, -1]  # log 0 and log -1
    log = gaussian(log_density=lambda x: xp.where(x[..., 0] > 0.5, xp.log(x[..., 1]), log_density(x)))
    for target, kernel, x0, message in (
        (log, RWM(1.0), start, r"log density is not finite at .* 2 entries .*\(0, 1\): -inf, \(1, 2\): nan"),
        (gaussian(score=lambda x: 1 / x), ULA(0.1), [[1.0, 1.0], [0.0, 1.0]], r"score is not finite .* \(1, 0\): inf"),
    ):
        with np.errstate(all="ignore"), pytest.raises(LogDensityError, match=message):
            run(target, kernel, library.array(x0))


def test_the_start_is_checked_at_every_run_and_many_bad_chains_are_counted():
    run(ROOT_OF_X, RWM(0.01), x0=np.ones((4, 2)))
    with np.errstate(all="ignore"), pytest.raises(LogDensityError, match=r"not finite.*of 9 entries .* and 4 more"):
        run(ROOT_OF_X, RWM(0.01), x0=np.zeros((9, 2)))


@pytest.mark.parametrize("value", [None, 1.0, "x"])
def test_discrete_densities_that_give_no_array(value):
    target = xps.Target(lambda x: value, space=xps.Binary())
    for kernel in (xps.LocallyBalanced(), xps.Gibbs(), xps.SingleFlip()):
        with pytest.raises(LogDensityError, match="the log density must be an array of the positions' library"):
            run(target, kernel)


@pytest.mark.parametrize("kernel", [RWM(1.0), MALA(0.1), HMC(0.1, 2), PCN(0.5), IndependentMH(0.0)])
def test_a_kernel_that_needs_a_density_on_a_target_that_has_a_score_only(kernel):
    with pytest.raises(CapabilityError, match=r"needs a log density and the target has only a score: pass Target\("):
        run(xps.Target(None, score=score), kernel)


NO_ARRAY = {"list": [[0.0, 0.0]], "tuple": (0.0,), "number": 1.5, "text": "zero", "None": None}


@pytest.mark.parametrize("x0", NO_ARRAY.values(), ids=NO_ARRAY)
@pytest.mark.parametrize("make", [lambda t: t, lambda t: Tempered(t, 0.5)], ids=["target", "tempered"])
def test_positions_that_are_no_array(x0, make):
    with pytest.raises(BackendError, match=f"must be an array of a registered library; got {type(x0).__name__}"):
        xps.sample(make(gaussian()), RWM(1.0), x0, 3, seed=0)


ARGUMENTS = [
    (lambda: xps.Target("x"), r"log_density must be a function \(x\) or None; got 'x'"),
    (lambda: xps.Target(log_density, space=xps.Binary), "space must be a Space, .* got the class Binary"),
    (lambda: xps.Target(log_density, gradient=xps.Auto), "gradient must be a GradientChoice, .* got the class Auto"),
    (lambda: xps.StochasticSVGD(0.1, kernel=1.0), r"kernel must be a PairKernel, such as RBF\(\); got 1\.0"),
    (lambda: xps.AIS(RWM(1.0), betas=5), "betas must be a sequence of numbers, 2 at least; got 5"),
    (lambda: xps.ParallelTempering(RWM(1.0), betas=3), "betas must be a sequence of numbers, 1 at least; got 3"),
    (lambda: xps.Checkpoint("x", every=NAN), "every must be at least 0; got nan"),
    (lambda: xps.Checkpoint("x", every="x"), "every must be a number; got 'x'"),
    (lambda: xps.Checkpoint(""), "path must be a path; got ''"),
    (lambda: RWM(float("inf")), "step_size must be finite; got inf"),
    (
        lambda: HMC(0.1, 2, mass=[1.0, 2.0]),
        r"mass must be a positive number, or an array \(dim,\) or .*: make an array",
    ),
    (lambda: HMC(0.1, 2, mass=-2.0), r"mass must be greater than 0; got -2\.0"),
]


@pytest.mark.parametrize(("make", "message"), ARGUMENTS)
def test_arguments_of_the_wrong_kind(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


def test_a_target_of_nothing():
    with pytest.raises(CapabilityError, match="without a log density and without a score"):
        xps.Target(None)


# ---- torch, JAX, two devices -----------------------------------------------------------------------------------------


HOME = "is a torch array and the positions are numpy"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda torch: {"x0": torch.zeros((4, 2), device="meta")}, "a tensor must be plain; got "),
        (lambda torch: {"x0": torch.zeros((4, 2)).to_sparse()}, "a tensor must be plain; got "),
        (lambda torch: {"target": xps.Target(lambda x: torch.asarray(log_density(x)))}, f"log density {HOME}"),
        (lambda torch: {"target": Tempered(gaussian(), torch.ones(4, dtype=torch.float64))}, f"beta {HOME}"),
        (lambda torch: {"target": gaussian_with({"design": [torch.ones(2)]})}, f"data 'design/0' {HOME}"),
    ],
    ids=["meta", "sparse", "log density", "beta", "data"],
)
def test_tensors_that_are_not_plain(call, message):
    """Or beside arrays of another library."""
    with pytest.raises(BackendError, match=message):
        run(**call(pytest.importorskip("torch")))


def gaussian_with(data):
    return xps.Target(lambda x, d: log_density(x), data=data)


@pytest.mark.parametrize("kernel", [RWM(1.0), HMC(0.1, 2)])
def test_numpy_functions_on_tensors_come_with_advice(kernel):
    torch = pytest.importorskip("torch")
    target = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1))
    message = r"(?s)failed at the start positions, torch .*use that library's functions"
    with pytest.raises(LogDensityError, match=message):
        run(target, kernel, torch.zeros((4, 2)))


def test_checks_of_torch_distributions_in_the_middle_of_a_run():
    torch = pytest.importorskip("torch")
    gamma = torch.distributions.Gamma(torch.tensor(2.0), torch.tensor(1.0))
    message = r"the run failed between steps 0 and \d.*-inf.*validate_args=False.*ValueErr"
    with pytest.raises(FunctionError, match=message):
        run(xps.Target(lambda x: gamma.log_prob(x).sum(-1)), RWM(5.0), torch.ones((4, 2)), draws=9)


def test_runs_inside_transformations_of_torch():
    torch = pytest.importorskip("torch")
    x0 = torch.zeros((4, 2))
    for inside in (torch.func.vmap(lambda x: run(x0=x[None]).draws), torch.func.grad(lambda x: run(x0=x).draws.sum())):
        with pytest.raises(BackendError, match="one inside torch"):
            inside(x0)


def test_runs_inside_transformations_of_jax():
    jax = pytest.importorskip("jax")
    x0 = jax.numpy.zeros((4, 2))
    for inside, argument in (
        (jax.jit(lambda x: run(x0=x).draws), x0),
        (jax.vmap(lambda x: run(x0=x).draws), x0[None]),
        (jax.grad(lambda x: run(x0=x).draws.sum()), x0),
        (jax.jit(lambda step: run(kernel=RWM(step), x0=x0).draws), 0.5),
        (jax.jit(lambda unused: run(x0=x0).draws), 0),
    ):
        with pytest.raises(BackendError, match="inside jit, vmap and grad"):
            inside(argument)


def test_two_devices():
    strict = pytest.importorskip("array_api_strict")
    cpu, other = strict.Device("CPU_DEVICE"), strict.Device("device1")
    half = strict.full((4,), 0.5, device=cpu)
    for name, call in {
        "step_size": {"kernel": RWM(half)},
        "mass": {"kernel": HMC(0.1, 2, mass=strict.ones(2, device=cpu))},
        "data 'a'": {"target": gaussian_with({"a": half})},
        "the log density": {"target": xps.Target(lambda x: log_density(x).to_device(cpu))},
        "beta": {"target": Tempered(gaussian(), half)},
    }.items():
        message = (
            f"{name} is on cpu and the positions are on device1: nothing is moved silently, so put both on one device"
        )
        with pytest.raises(BackendError, match=message):
            run(**call, x0=strict.zeros((4, 2), device=other))


@pytest.mark.parametrize("where", ["positions", "data", "log density"])
def test_masked_arrays(where):
    """Arithmetic of a run would lose the mask."""

    def masked(array, here):
        return np.ma.masked_array(array, np.isnan(array)) if where == here else array

    def weighted(x, weights):
        return masked(-0.5 * np.sum(weights * np.asarray(x) ** 2, axis=-1), "log density")

    target = xps.Target(weighted, data=masked(np.ones(2), "data"))
    with pytest.raises(BackendError, match="a masked array would lose its mask in a run"):
        run(target, RWM(1.0), masked(np.zeros((4, 2)), "positions"))


def test_an_array_of_no_library(library):
    class Foreign:
        def __array_namespace__(self, api_version=None):
            return np

    check_same_home("it", library.array([1.0]), library.array([1.0]))
    message = r"test_bad_input.*Foreign is not an array of a registered library \(.*numpy.*\)"
    with pytest.raises(BackendError, match=message):
        run(x0=Foreign())


def test_a_library_that_is_not_installed():
    if importlib.util.find_spec("cupy") is not None:
        pytest.skip("cupy is installed")
    with pytest.raises(BackendError, match="the backend of 'cupy' cannot be loaded: No module named 'cupy'"):
        backend_named("cupy")


# ---- derivatives -----------------------------------------------------------------------------------------------------


def test_nobody_to_differentiate_lists_what_would_help(no_lender):
    plain, hessian = xps.Target(log_density), xps.Target(log_density, score=score)
    for target, kernel, needed, argument in (
        (plain, MALA(0.1), "a score", "score="),
        (hessian, SRMC(MALA(0.1), alpha=1.0, tilt=Exact()), "Hessian-vector products", "hvp="),
    ):
        with pytest.raises(CapabilityError, match=f"the kernel needs {needed}: numpy has no automatic diff") as caught:
            run(target, kernel)
        for help_text in ("no installed library lends one", argument, "Via(NAME)", "gradient=FiniteDifference()"):
            assert help_text in str(caught.value)
    message = r"numpy has no automatic differentiation; borrow .* gradient=Via\(NAME\) .*with autodiff: none"
    with pytest.raises(CapabilityError, match=message):
        run(xps.Target(log_density, gradient=NativeGradient()), MALA(0.1))


def test_what_needs_no_hvp_does_not_ask_for_one(no_lender):
    no_hvp = xps.Target(log_density, score=score)
    for kernel in (SRMC(RWM(1.0), alpha=1.0), SRMC(MALA(0.1), alpha=1.0, tilt=Shift())):
        assert Capability.HVP not in kernel.requires
        assert run(no_hvp, kernel).draws.shape == (3, 4, 2)
    assert Capability.HVP in SRMC(MALA(0.1), alpha=1.0, tilt=Exact()).requires


@pytest.mark.parametrize("kernel", [ULA(0.1), UnderdampedLangevin(0.1)])
def test_unadjusted_kernels_are_content_with_a_score(library, kernel):
    trace = run(xps.Target(None, score=score), kernel, library.array(np.zeros((4, 2))))
    assert trace.run_statistics.evaluations == {"log_density": 0.0, "score": 1.0, "hvp": 0.0}


def test_a_density_of_scipy_is_told_of_finite_differences():
    pytest.importorskip("torch")
    with pytest.raises(CapabilityError, match=r"installed with autodiff: .*torch"):
        run(xps.Target(log_density, gradient=NativeGradient()), MALA(0.1))
    density = pytest.importorskip("scipy.stats").multivariate_normal(np.zeros(2)).logpdf
    with pytest.raises(GradientError, match=r"or use gradient=FiniteDifference\(\); a Target"):
        run(xps.Target(density), HMC(0.1, 2))
    assert run(xps.Target(density, gradient=xps.FiniteDifference()), HMC(0.1, 2)).draws.shape == (3, 4, 2)


@pytest.mark.parametrize("lender", ["torch", "jax"])
def test_a_density_that_the_lender_cannot_run(lender):
    pytest.importorskip(lender)
    target = xps.Target(lambda x: np.sum(-0.5 * x * x, axis=-1, out=np.empty(4, x.dtype)), gradient=xps.Via(lender))
    message = rf"Via\('{lender}'\) could not run your function on {lender} arrays: .*array_namespace\(.*score="
    with pytest.raises(GradientError, match=f"(?s){message}"):
        run(target, MALA(0.1), np.zeros((4, 2), dtype="float32"))


def test_a_model_that_the_lender_cannot_run_is_told_of_what_a_model_takes():
    pytest.importorskip("torch")
    y = np.asarray([1.0, 2.0])
    model = xps.Model(
        lambda p: -0.5 * np.sum((y - p.mu[..., None]) ** 2, axis=-1), mu=xps.Real(), gradient=xps.Via("torch")
    )
    with pytest.raises(GradientError) as caught:
        xps.sample(model, MALA(0.1), np.zeros((4, 1)), 3, seed=1)
    said = str(caught.value)
    assert "array_namespace(x)" in said and "by data=" in said and "FiniteDifference()" in said
    assert "Target(" not in said and said.endswith("a Target also accepts score=.")


def test_a_lender_that_would_change_the_dtype():
    pytest.importorskip("jax")
    target = xps.Target(log_density, gradient=xps.Via("jax"))
    with pytest.raises(GradientError, match="jax turned float64 into float32: switch its 64-bit types on, or pass"):
        run(target, MALA(0.1))


def test_a_wrong_score_is_found_where_the_user_asks_for_a_check(library):
    x0 = library.array(np.linspace(-1, 1, 8).reshape(4, 2))
    wrong = gaussian(score=lambda x: -1.1 * x)
    with pytest.raises(GradientError, match=r"the score disagrees with the log density's: at index \(\d, \d\)"):
        run(wrong, MALA(0.1), x0, check=True)
    assert run(wrong, MALA(0.1), x0).draws.shape == (3, 4, 2)
    assert run(gaussian(), MALA(0.1), x0, check=True).draws.shape == (3, 4, 2)


# ---- errors of the user's own, and numbers ---------------------------------------------------------------------------


def test_a_users_own_exceptions_pass():
    class Own(Exception):
        pass

    def stops(x):
        if np.any(x != 0.0):
            raise Own
        return log_density(x)

    for x0 in (np.zeros((4, 2)), np.ones((4, 2))):
        with pytest.raises(Own):
            run(xps.Target(stops), x0=x0)


def test_a_sentence_of_an_error_of_yours_has_one_full_stop():
    def fails(x):
        raise ValueError("This is a sentence.")

    with pytest.raises(LogDensityError, match=r"ValueError: This is a sentence\. A target's functions"):
        run(xps.Target(fails), RWM(1.0))
    pytest.importorskip("torch")
    numpy_alone = xps.Target(lambda x: log_density(x) if isinstance(x, np.ndarray) else fails(x))
    with pytest.raises(GradientError, match=r"arrays: This is a sentence\. Write it"):
        run(numpy_alone, MALA(0.1))


def test_a_number_stands_for_a_multiple_of_the_identity(library):
    x0 = library.array(np.linspace(-1.0, 1.0, 8).reshape(4, 2))
    two = library.array([2.0, 2.0])
    for make in (
        lambda c: HMC(0.3, 2, mass=c),
        lambda c: UnderdampedLangevin(0.3, mass=c),
        lambda c: MALA(0.1, preconditioner=c),
        lambda c: RWM(1.0, covariance=c),
        lambda c: PCN(0.5, mean=c, covariance=c),
        lambda c: IndependentMH(c, c),
    ):
        draws = [library.host(run(kernel=make(c), x0=x0).draws) for c in (2.0, np.float32(2.0), two)]
        np.testing.assert_array_equal(draws[0], draws[1])
        np.testing.assert_allclose(draws[0], draws[2], rtol=1e-12, atol=1e-14)


def test_numbers_of_numpy_are_numbers(library):
    x0 = library.array(np.linspace(-1.0, 1.0, 8).reshape(4, 2))
    plain = run(kernel=HMC(0.125, 3), x0=x0, draws=4)
    for kernel in (HMC(np.float32(0.125), np.int64(3)), HMC(np.float64(0.125), np.uint8(3))):
        trace = run(kernel=kernel, x0=x0, draws=np.int64(4), seed=xps.Portable(np.int64(0)))
        np.testing.assert_array_equal(library.host(trace.draws), library.host(plain.draws))
