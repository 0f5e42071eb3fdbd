"""What bad input gets: an error before the first step whose message says what was found and what would help."""

import importlib.util

import numpy as np
import pytest

import xpsample as xps
from tests.bad_input_support import MATRICES, NAN, PER_CHAIN, gaussian, log_density, run, score
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

# ---- positions -------------------------------------------------------------------------------------------------------


def test_integer_positions(library):
    with pytest.raises(PositionError, match=r"real floating array; got dtype int64 \(convert the start positions\)"):
        run(x0=library.array(np.zeros((4, 2), dtype="int64")))


@pytest.mark.parametrize("dtype", ["bool", "complex128"])
def test_boolean_and_complex_positions(library, dtype):
    with pytest.raises(PositionError, match=f"real floating array; got dtype {dtype}"):
        run(x0=library.array(np.zeros((4, 2), dtype=dtype)))


@pytest.mark.parametrize("shape", [(), (4, 0)])
def test_positions_without_coordinates(library, shape):
    with pytest.raises(PositionError, match=r"shape \(\*chains, dim\) with dim >= 1; got \(.*\)"):
        run(x0=library.array(np.zeros(shape)))


@pytest.mark.parametrize("x0", [[[0.0, 0.0]], (0.0,), 1.5, "zero", None])
@pytest.mark.parametrize("make", [lambda t: t, lambda t: Tempered(t, 0.5)], ids=["target", "tempered"])
def test_positions_that_are_no_array(x0, make):
    with pytest.raises(BackendError, match=f"must be an array of a registered library; got {type(x0).__name__}"):
        xps.sample(make(gaussian()), RWM(1.0), x0, 3, seed=0)


@pytest.mark.parametrize(
    ("x0", "advice"),
    [
        ([[0.0, 0.0]], r"got list; make an array of it, such as numpy.asarray\(x0\)"),
        ({"a": np.zeros((4, 2))}, r"got dict; put its values side by side into one array \(\*chains, dim\)"),
    ],
)
def test_lists_and_dicts_as_positions_come_with_advice(x0, advice):
    with pytest.raises(BackendError, match=advice):
        run(x0=x0)


@pytest.mark.parametrize(
    ("x0", "message"),
    [
        (np.zeros((0, 2)), r"at least one chain; got shape \(0, 2\)"),
        (np.zeros((4, 2), dtype="float16"), "must be float32 or float64; got dtype float16"),
        (np.full((4, 2), np.inf), "must be finite"),
    ],
)
def test_positions_that_no_run_can_begin_with(x0, message):
    with pytest.raises(PositionError, match=message):
        run(x0=x0)


def test_tensors_that_are_not_plain():
    torch = pytest.importorskip("torch")
    for x0 in (torch.zeros((4, 2), device="meta"), torch.zeros((4, 2)).to_sparse()):
        with pytest.raises(BackendError, match="a tensor must be plain; got "):
            run(x0=x0)


def test_runs_inside_transformations_of_torch():
    torch = pytest.importorskip("torch")
    x0 = torch.zeros((4, 2))
    for inside in (torch.func.vmap(lambda x: run(x0=x[None]).draws), torch.func.grad(lambda x: run(x0=x).draws.sum())):
        with pytest.raises(BackendError, match="one inside torch"):
            inside(x0)


def test_runs_inside_transformations_of_jax():
    jax = pytest.importorskip("jax")
    x0 = jax.numpy.zeros((4, 2))
    with pytest.raises(BackendError, match="inside jit, vmap and grad"):
        jax.jit(lambda x: run(x0=x).draws)(x0)
    with pytest.raises(BackendError, match="inside jit, vmap and grad"):
        jax.vmap(lambda x: run(x0=x).draws)(x0[None])
    with pytest.raises(BackendError, match="inside jit, vmap and grad"):
        jax.grad(lambda x: run(x0=x).draws.sum())(x0)
    with pytest.raises(BackendError, match="inside jit, vmap and grad"):
        jax.jit(lambda step: run(kernel=RWM(step), x0=x0).draws)(0.5)
    with pytest.raises(BackendError, match="inside jit, vmap and grad"):
        jax.jit(lambda unused: run(x0=x0).draws)(0)


# ---- the log density -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [RWM(1.0), HMC(0.1, 2)])
def test_a_log_density_of_one_position_comes_with_advice(library, kernel):
    with pytest.raises(
        LogDensityError, match=r"failed at the start positions.*\(4, 2\).*lift a function .* by batched"
    ):
        run(xps.Target(lambda x: -0.5 * x @ x), kernel, library.array(np.zeros((4, 2))))


@pytest.mark.parametrize("kernel", [RWM(1.0), HMC(0.1, 2)])
def test_numpy_functions_on_tensors_come_with_advice(kernel):
    torch = pytest.importorskip("torch")
    target = xps.Target(lambda x: -0.5 * np.sum(x * x, axis=-1))
    with pytest.raises(
        LogDensityError, match=r"(?s)failed at the start positions, torch .*use that library's functions"
    ):
        run(target, kernel, torch.zeros((4, 2)))


def test_a_density_of_scipy_is_told_of_finite_differences():
    pytest.importorskip("torch")
    stats = pytest.importorskip("scipy.stats")
    density = stats.multivariate_normal(np.zeros(2)).logpdf
    with pytest.raises(GradientError, match=r"or use gradient=FiniteDifference\(\); a Target"):
        run(xps.Target(density), HMC(0.1, 2))
    assert run(xps.Target(density, gradient=xps.FiniteDifference()), HMC(0.1, 2)).draws.shape == (3, 4, 2)


def test_checks_of_torch_distributions_in_the_middle_of_a_run():
    torch = pytest.importorskip("torch")
    gamma = torch.distributions.Gamma(torch.tensor(2.0), torch.tensor(1.0))
    with pytest.raises(
        FunctionError, match=r"the run failed between steps 0 and \d.*-inf.*validate_args=False.*ValueErr"
    ):
        run(xps.Target(lambda x: gamma.log_prob(x).sum(-1)), RWM(5.0), torch.ones((4, 2)), draws=9)


def test_a_users_own_exceptions_pass():
    class Own(Exception):
        pass

    def stops(x):
        if np.any(x != 0.0):
            raise Own
        return log_density(x)

    with pytest.raises(Own):
        run(xps.Target(stops))
    with pytest.raises(Own):
        run(xps.Target(stops), x0=np.ones((4, 2)))


@pytest.mark.parametrize("value", [None, 1.0, "x"])
def test_discrete_densities_that_give_no_array(value):
    target = xps.Target(lambda x: value, space=xps.Binary())
    for kernel in (xps.LocallyBalanced(), xps.Gibbs(), xps.SingleFlip()):
        with pytest.raises(LogDensityError, match="the log density must be an array of the positions' library"):
            run(target, kernel)


def test_a_log_density_that_sums_over_the_chains(library):
    whole = xps.Target(lambda x: -0.5 * library.xp.sum(x * x))
    message = r"must have shape \(4,\) for positions \(4, 2\); got \(\).*Sum over the last axis"
    with pytest.raises(LogDensityError, match=message):
        run(whole, x0=library.array(np.zeros((4, 2))))


def test_a_log_density_that_does_not_sum_over_the_coordinates(library):
    each = xps.Target(lambda x: -0.5 * x * x)
    message = r"must have shape \(4,\) for positions \(4, 2\); got \(4, 2\)"
    with pytest.raises(LogDensityError, match=message):
        run(each, x0=library.array(np.zeros((4, 2))))


def test_a_score_of_the_wrong_shape(library):
    target = gaussian(score=lambda x: -library.xp.sum(x, axis=-1))
    with pytest.raises(LogDensityError, match=r"the score must have shape \(4, 2\) for positions .*; got \(4,\)"):
        run(target, MALA(0.1), library.array(np.zeros((4, 2))))


def test_a_log_density_that_is_a_number():
    with pytest.raises(LogDensityError, match="must be an array of the positions' library; got float"):
        run(xps.Target(lambda x: 0.0))


def test_a_log_density_that_changes_the_dtype(library):
    target = gaussian(log_density=lambda x: library.xp.astype(log_density(x), library.xp.float32))
    with pytest.raises(LogDensityError, match="keep the positions' dtype float64; got float32"):
        run(target, x0=library.array(np.zeros((4, 2))))


def test_a_score_that_changes_the_dtype(library):
    target = gaussian(score=lambda x: library.xp.astype(-x, library.xp.float32))
    with pytest.raises(LogDensityError, match="the score must keep the positions' dtype float64; got float32"):
        run(target, ULA(0.1), library.array(np.zeros((4, 2))))


def test_a_log_density_in_another_library():
    torch = pytest.importorskip("torch")
    target = xps.Target(lambda x: torch.asarray(log_density(x)))
    with pytest.raises(BackendError, match="log density is a torch array and the positions are numpy"):
        run(target)


def test_a_log_density_that_is_not_finite_at_the_start_names_chains_and_values(library):
    xp = library.xp
    target = gaussian(log_density=lambda x: xp.where(x[..., 0] > 0.5, xp.log(x[..., 1]), log_density(x)))
    start = np.zeros((2, 3, 2))
    start[0, 1] = [1, 0]  # log 0
    start[1, 2] = [1, -1]  # log -1
    message = r"log density is not finite at the start .* 2 entries .*\(0, 1\): -inf, \(1, 2\): nan"
    with np.errstate(all="ignore"), pytest.raises(LogDensityError, match=message):
        run(target, x0=library.array(start))


def test_a_score_that_is_not_finite_at_the_start_names_entries(library):
    target = gaussian(score=lambda x: 1 / x)
    with np.errstate(all="ignore"), pytest.raises(LogDensityError, match=r"score is not finite .* \(1, 0\): inf"):
        run(target, ULA(0.1), library.array([[1.0, 1.0], [0.0, 1.0]]))


def test_many_bad_chains_are_counted_and_not_all_listed():
    with np.errstate(all="ignore"), pytest.raises(LogDensityError, match=r"of 9 entries .* and 4 more"):
        run(xps.Target(lambda x: np.log(x[..., 0])), x0=np.zeros((9, 2)))


def test_the_start_is_checked_at_every_run():
    target = xps.Target(lambda x: np.log(x[..., 0]))
    run(target, RWM(0.01), x0=np.ones((4, 2)))
    with np.errstate(all="ignore"), pytest.raises(LogDensityError, match="not finite"):
        run(target, RWM(0.01), x0=np.zeros((4, 2)))


def test_a_wrong_score_is_found_where_the_user_asks_for_a_check(library):
    x0 = library.array(np.linspace(-1, 1, 8).reshape(4, 2))
    wrong = gaussian(score=lambda x: -1.1 * x)
    with pytest.raises(GradientError, match=r"the score disagrees with the log density's: at index \(\d, \d\)"):
        run(wrong, MALA(0.1), x0, check=True)
    assert run(wrong, MALA(0.1), x0).draws.shape == (3, 4, 2)
    assert run(gaussian(), MALA(0.1), x0, check=True).draws.shape == (3, 4, 2)


def test_a_check_of_a_target_made_of_another_is_refused():
    with pytest.raises(XpsampleError, match="check=True compares the score of a Target"):
        run(Tempered(gaussian(), 0.5), MALA(0.1), check=True)


# ---- targets and kernels that are none -------------------------------------------------------------------------------


def test_a_bare_function_as_target():
    with pytest.raises(
        CapabilityError, match=r"target must be a target; got <function.*: wrap a log density as Target"
    ):
        run(log_density)


@pytest.mark.parametrize("kernel", [RWM, "RWM", None])
def test_something_else_as_kernel(kernel):
    with pytest.raises(CapabilityError, match=r"kernel must be a Kernel, such as RWM\(0\.5\) or your own; got "):
        run(kernel=kernel)


def test_a_kernel_without_its_parentheses():
    with pytest.raises(CapabilityError, match="got the class RWM, not one of its values"):
        run(kernel=RWM)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: xps.Target("x"), r"log_density must be a function \(x\) or None; got 'x'"),
        (lambda: xps.Target(log_density, space=xps.Binary), "space must be a Space, .* got the class Binary"),
        (
            lambda: xps.Target(log_density, gradient=xps.Auto),
            "gradient must be a GradientChoice, .* got the class Auto",
        ),
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
    ],
)
def test_arguments_of_the_wrong_kind(make, message):
    with pytest.raises(HyperparameterError, match=message):
        make()


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


@pytest.mark.parametrize(
    ("recorders", "message"),
    [
        (None, r"recorders must be a sequence of recorders, such as \(Draws\(\), Moments\(\)\); got None"),
        (xps.Moments(), r"recorders must be a sequence of recorders.*; got Moments"),
        (xps.Moments, r"recorders must be a sequence of recorders"),
        ("draws", r"recorders must be a sequence of recorders"),
        ({"m": xps.Moments()}, r"recorders must be a sequence of recorders"),
        ([xps.Moments], "a recorder must be a Recorder, such as Draws.*; got the class Moments"),
        (
            [xps.Record("draws", lambda s: s.point.x)],
            "'draws' is the name of the trace's draws: rename the Record",
        ),
        ([xps.Moments("statistics")], "'statistics' is the name of the trace's statistics: rename the Moments"),
    ],
)
def test_recorders_that_are_none_or_take_a_name_of_the_trace(recorders, message):
    with pytest.raises(HyperparameterError, match=message):
        run(recorders=recorders)


@pytest.mark.parametrize("value", [1.0, None, "x", {}])
def test_a_record_that_gives_no_array(value):
    with pytest.raises(FunctionError, match=r"the function of Record\('r'\) must give arrays; got "):
        run(recorders=[xps.Record("r", lambda state: value)])


def test_a_target_of_nothing():
    with pytest.raises(CapabilityError, match="without a log density and without a score"):
        xps.Target(None)


# ---- capabilities ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [RWM(1.0), MALA(0.1), HMC(0.1, 2), PCN(0.5), IndependentMH(0.0)])
def test_a_kernel_that_needs_a_density_on_a_target_that_has_a_score_only(kernel):
    with pytest.raises(CapabilityError, match=r"needs a log density and the target has only a score: pass Target\("):
        run(xps.Target(None, score=score), kernel)


@pytest.mark.parametrize("kernel", [ULA(0.1), UnderdampedLangevin(0.1)])
def test_unadjusted_kernels_are_content_with_a_score(library, kernel):
    trace = run(xps.Target(None, score=score), kernel, library.array(np.zeros((4, 2))))
    assert trace.run_statistics.evaluations == {"log_density": 0.0, "score": 1.0, "hvp": 0.0}


def test_no_score_and_nobody_to_differentiate_lists_what_would_help(no_lender):
    with pytest.raises(CapabilityError, match="the kernel needs a score: numpy has no automatic diff") as caught:
        run(xps.Target(log_density), MALA(0.1))
    for help_text in ("no installed library lends one", "score=", "Via(NAME)", "gradient=FiniteDifference()"):
        assert help_text in str(caught.value)


def test_no_hvp_and_nobody_to_differentiate_lists_what_would_help(no_lender):
    with pytest.raises(CapabilityError, match="the kernel needs Hessian-vector products: numpy has no") as caught:
        run(xps.Target(log_density, score=score), SRMC(MALA(0.1), alpha=1.0, tilt=Exact()))
    for help_text in ("no installed library lends one", "hvp=", "Via(NAME)", "gradient=FiniteDifference()"):
        assert help_text in str(caught.value)


def test_native_derivatives_of_a_library_without(no_lender):
    message = r"numpy has no automatic differentiation; borrow .* gradient=Via\(NAME\) .*with autodiff: none"
    with pytest.raises(CapabilityError, match=message):
        run(xps.Target(log_density, gradient=NativeGradient()), MALA(0.1))


def test_installed_lenders_are_named():
    pytest.importorskip("torch")
    with pytest.raises(CapabilityError, match=r"installed with autodiff: .*torch"):
        run(xps.Target(log_density, gradient=NativeGradient()), MALA(0.1))


def test_a_lender_that_does_not_differentiate():
    with pytest.raises(CapabilityError, match="numpy has no automatic differentiation to lend"):
        run(xps.Target(log_density, gradient=xps.Via("numpy")), MALA(0.1))


def test_a_lender_that_nobody_knows():
    with pytest.raises(BackendError, match="no backend is registered for 'mlx'; registered: "):
        run(xps.Target(log_density, gradient=xps.Via("mlx")), MALA(0.1))


def test_what_needs_no_hvp_does_not_ask_for_one(no_lender):
    no_hvp = xps.Target(log_density, score=score)
    for kernel in (SRMC(RWM(1.0), alpha=1.0), SRMC(MALA(0.1), alpha=1.0, tilt=Shift())):
        assert Capability.HVP not in kernel.requires
        assert run(no_hvp, kernel).draws.shape == (3, 4, 2)
    assert Capability.HVP in SRMC(MALA(0.1), alpha=1.0, tilt=Exact()).requires


@pytest.mark.parametrize("lender", ["torch", "jax"])
def test_a_density_that_the_lender_cannot_run(lender):
    pytest.importorskip(lender)

    def numpy_only(x):
        out = np.empty(x.shape[:-1], dtype=x.dtype)
        np.sum(-0.5 * x * x, axis=-1, out=out)
        return out

    target = xps.Target(numpy_only, gradient=xps.Via(lender))
    x0 = np.zeros((4, 2), dtype="float32")
    message = rf"Via\('{lender}'\) could not run your function on {lender} arrays: .*array_namespace\(.*score="
    with pytest.raises(GradientError, match=f"(?s){message}"):
        run(target, MALA(0.1), x0)


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


def test_a_sentence_of_an_error_of_yours_has_one_full_stop():
    def fails(x):
        raise ValueError("This is a sentence.")

    with pytest.raises(LogDensityError, match=r"ValueError: This is a sentence\. A target's functions"):
        run(xps.Target(fails), RWM(1.0))
    pytest.importorskip("torch")
    numpy_alone = xps.Target(lambda x: log_density(x) if isinstance(x, np.ndarray) else fails(x))
    with pytest.raises(GradientError, match=r"arrays: This is a sentence\. Write it"):
        run(numpy_alone, MALA(0.1))


def test_a_lender_that_would_change_the_dtype():
    pytest.importorskip("jax")
    target = xps.Target(log_density, gradient=xps.Via("jax"))
    with pytest.raises(GradientError, match="jax turned float64 into float32: switch its 64-bit types on, or pass"):
        run(target, MALA(0.1))


# ---- two libraries, two devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "name"), PER_CHAIN)
def test_hyper_parameters_of_another_library(make, name):
    torch = pytest.importorskip("torch")
    with pytest.raises(BackendError, match=f"{name} is a torch array and the positions are numpy: use one library"):
        run(kernel=make(torch.full((4,), 0.75, dtype=torch.float64)))


@pytest.mark.parametrize(("make", "name"), MATRICES)
def test_matrices_of_another_library(make, name):
    torch = pytest.importorskip("torch")
    with pytest.raises(BackendError, match=f"{name} is a torch array and the positions are numpy"):
        run(kernel=make(torch.ones(2, dtype=torch.float64)))


def test_inverse_temperatures_of_another_library():
    torch = pytest.importorskip("torch")
    with pytest.raises(BackendError, match="beta is a torch array and the positions are numpy"):
        run(Tempered(gaussian(), torch.full((4,), 0.5, dtype=torch.float64)))


def test_data_of_another_library():
    torch = pytest.importorskip("torch")
    target = xps.Target(lambda x, d: log_density(x), data={"design": [torch.ones(2)]})
    with pytest.raises(BackendError, match="data 'design/0' is a torch array and the positions are numpy"):
        run(target)


def test_two_devices():
    strict = pytest.importorskip("array_api_strict")
    cpu, other = strict.Device("CPU_DEVICE"), strict.Device("device1")
    x0 = strict.zeros((4, 2), device=other)
    half = strict.full((4,), 0.5, device=cpu)
    message = "{} is on cpu and the positions are on device1: nothing is moved silently, so put both on one device"
    with pytest.raises(BackendError, match=message.format("step_size")):
        run(kernel=RWM(half), x0=x0)
    with pytest.raises(BackendError, match=message.format("mass")):
        run(kernel=HMC(0.1, 2, mass=strict.ones(2, device=cpu)), x0=x0)
    with pytest.raises(BackendError, match=message.format("data 'a'")):
        run(xps.Target(lambda x, d: log_density(x), data={"a": half}), x0=x0)
    with pytest.raises(BackendError, match=message.format("the log density")):
        run(xps.Target(lambda x: log_density(x).to_device(cpu)), x0=x0)
    with pytest.raises(BackendError, match=message.format("beta")):
        run(Tempered(gaussian(), half), x0=x0)


def test_arrays_at_home_pass(library):
    array = library.array([1.0])
    check_same_home("it", array, array)


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


def test_an_array_of_no_library():
    class Foreign:
        def __array_namespace__(self, api_version=None):
            return np

    message = r"test_bad_input.*Foreign is not an array of a registered library \(.*numpy.*\)"
    with pytest.raises(BackendError, match=message):
        run(x0=Foreign())


def test_a_library_that_is_not_installed():
    if importlib.util.find_spec("cupy") is not None:
        pytest.skip("cupy is installed")
    with pytest.raises(BackendError, match="the backend of 'cupy' cannot be loaded: No module named 'cupy'"):
        backend_named("cupy")
