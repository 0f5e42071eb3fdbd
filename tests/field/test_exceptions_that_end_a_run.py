"""An exception of a likelihood is a rejection of that chain where the user asks, and in models of torch.distributions.

These check their arguments, for all chains at once: one diverging proposal would end the run of all.
"""

import copy
import pickle
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

import numpy as np
import pytest

import xpsample as xps
from tests.conftest import open_library
from xpsample import score_mh
from xpsample.core.errors import (
    ConvergenceWarning,
    DivergenceWarning,
    FunctionError,
    LogDensityError,
    WorkerError,
)
from xpsample.sampling import loop
from xpsample.sampling.checkpoint import SavedRun
from xpsample.targets.batched import Lifted, Rejection
from xpsample.trace.recorders import Recorder


def fails_on_the_right(x):
    """Of one position: a normal on the left half of the line."""
    if float(x[0]) > 0:
        raise ValueError("to the right")
    return -0.5 * (x * x).sum()


def rejecting(**rejects):
    return xps.Target(xps.batched(fails_on_the_right, **rejects))


@pytest.mark.parametrize(
    ("target", "start", "error", "message"),
    [
        (rejecting(), -1.0, FunctionError, r"batched\(f, rejects=ValueError\).*to the right"),
        (rejecting(rejects=ArithmeticError), -1.0, FunctionError, "to the right"),
        (rejecting(rejects=ValueError), 1.0, LogDensityError, r"failed at the start positions.*to the right"),
    ],
    ids=["without rejects", "another class", "at the start"],
)
def test_the_error_says_how_to_reject(target, start, error, message):
    with pytest.raises(error, match=message):
        xps.sample(target, xps.RWM(1.0), start * np.ones((4, 1)), 50, seed=1)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_a_chain_that_raises_is_rejected_and_no_other(name):
    """The half normal has mean -0.80 and the chains 4,000 draws each: 0.1 is over ten standard errors."""
    lib = pytest.importorskip(name)
    target = xps.Target(xps.batched(fails_on_the_right, rejects=ValueError), constrained=True)
    trace = xps.sample(target, xps.RWM(2.0), lib.asarray(-np.ones((8, 1))), 1000, seed=1, progress=False)
    draws = np.asarray(trace.draws)
    assert draws.max() <= 0 and abs(draws.mean() + np.sqrt(2 / np.pi)) < 0.1
    assert np.sum(np.asarray(trace.run_statistics.diverged)) == 0


@pytest.mark.parametrize("of", [copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_what_rejects_can_be_sent_to_workers(of):
    lifted = of(xps.batched(fails_on_the_right, rejects=(ValueError, ArithmeticError)))
    np.testing.assert_array_equal(lifted(np.asarray([[-1.0], [1.0]])), [-0.5, -np.inf])


# ---- how many raise --------------------------------------------------------------------------------------------------


def counted(draws=300, **settings):
    """Of a run whose target does not say that a density of 0 is meant, so that each rejection is a divergence, too."""
    executor = settings.pop("workers", None)
    target = xps.Target(xps.batched(fails_on_the_right, rejects=ValueError, executor=executor))
    settings = {"seed": 1, "progress": False} | settings
    return xps.sample(target, xps.RWM(2.0), -np.ones((4, 1)), draws, **settings)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
@pytest.mark.parametrize("settings", [{}, {"burn_in": 50}, {"shards": 2}, {"thinning": 3}, "workers"], ids=str)
def test_those_that_raise_are_counted(settings):
    with ThreadPoolExecutor(2) as pool:
        trace = counted(**({"workers": pool} if settings == "workers" else settings))
    diverged = np.sum(trace.run_statistics.diverged) / (4 * trace.run_statistics.steps)
    assert diverged > 0.2 and trace.run_statistics.evaluations["raised"] == pytest.approx(diverged, rel=1e-12)
    assert f"{diverged:.4g} raised" in str(trace.summary())


def test_a_rejection_comes_back_from_a_process():
    of_a_process = pickle.loads(pickle.dumps(Lifted(fails_on_the_right, (ValueError,)).of_one(np.ones(1))))
    assert isinstance(of_a_process, Rejection) and of_a_process == -np.inf


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DiagnosisWarning")
def test_the_count_of_a_resumed_run_is_that_of_a_whole_one(tmp_path):
    counted(100, checkpoint=tmp_path)
    resumed, again = counted(checkpoint=tmp_path), counted(checkpoint=tmp_path)
    whole = counted().run_statistics.evaluations
    assert resumed.run_statistics.evaluations == again.run_statistics.evaluations == whole
    assert xps.load(tmp_path).run_statistics.evaluations == whole


def test_densities_of_0_and_runs_without_rejections_have_no_count():
    target = xps.Target(xps.batched(lambda x: -np.inf if x[0] > 0 else -0.5 * (x @ x), rejects=ValueError))
    with pytest.warns(DivergenceWarning):
        trace = xps.sample(target, xps.RWM(2.0), -np.ones((4, 1)), 100, seed=1, progress=False)
    assert np.sum(trace.run_statistics.diverged) > 0 and "raised" not in trace.run_statistics.evaluations


# ---- torch.distributions ---------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.distributions.Distribution.set_default_validate_args(True)  # torch.compile has switched it off, once it ran
    return torch


def poisson_model(torch):
    from torch.distributions import Normal, Poisson
    from xpsample_torch import from_distributions

    x = torch.linspace(-1, 1, 30)
    counts = torch.round(torch.exp(1 + 0.5 * x))

    def log_likelihood(p, data):
        x, counts = data
        return Poisson(torch.exp(p.a[..., None] + p.b[..., None] * x)).log_prob(counts).sum(-1)

    return from_distributions.model(log_likelihood, data=(x, counts), a=Normal(0.0, 10.0), b=Normal(0.0, 10.0))


def scale_model(torch):
    from torch.distributions import Normal
    from xpsample_torch import from_module

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
            self.log_scale = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return self.body(x)[..., 0], self.log_scale

    x = torch.linspace(-1, 1, 20)[:, None]

    def log_likelihood(net, data):
        x, y = data
        mean, log_scale = net(x)
        return Normal(mean, torch.exp(log_scale)[..., None]).log_prob(y).sum(-1)

    with torch.random.fork_rng():
        return from_module.model(Net(), log_likelihood, prior=Normal(0.0, 1.0), data=(x, torch.sin(3 * x[:, 0])))


MODELS = {"Poisson": poisson_model, "a network with a scale": scale_model}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_chains_far_out_are_rejected_and_no_other(make, torch):
    """The density of each is that of it alone, and -inf or nan where it raises."""
    target = make(torch).target
    x = torch.asarray(np.random.default_rng(0).normal(size=(7, target.space.dim)).astype("float32"))
    x[2], x[5] = 200.0, torch.nan
    found = target.log_density(x, target.data)
    good = [0, 1, 3, 4, 6]
    alone = torch.stack([target.log_density(x[i : i + 1], target.data)[0] for i in good])
    assert not torch.isfinite(found[[2, 5]]).any()
    torch.testing.assert_close(found[good], alone, rtol=1e-5, atol=1e-4)
    grouped = target.log_density(torch.stack([x, x]), target.data)
    torch.testing.assert_close(grouped[1][good], alone, rtol=1e-5, atol=1e-4)


@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DivergenceWarning")
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_steps_that_are_too_large_end_no_run(make, torch):
    model = make(torch)
    x0 = model.start(like=torch.zeros(0), chains=3, seed=0, scale=0.1)
    trace = xps.sample(model, xps.HMC(30.0, 3), x0, 5, seed=1, progress=False)
    diverged = float(np.sum(np.asarray(trace.run_statistics.diverged)))
    assert torch.isfinite(trace.draws).all() and diverged > 0
    assert trace.run_statistics.evaluations["raised"] * 15 >= diverged  # a trajectory evaluates several positions


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::xpsample.core.errors.DivergenceWarning")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_they_run_while_they_are_tuned(make, torch, seed):
    model = make(torch)
    x0 = model.start(like=torch.zeros(0), chains=4, seed=seed)
    assert torch.isfinite(xps.sample(model, xps.HMC(), x0, 5, seed=seed, warmup=40, progress=False).draws).all()


def test_data_that_no_distribution_takes_are_an_error_at_the_start(torch):
    from torch.distributions import Normal, Poisson
    from xpsample_torch import from_distributions

    def log_likelihood(p, counts):
        return Poisson(torch.exp(p.a[..., None])).log_prob(counts).sum(-1)

    model = from_distributions.model(log_likelihood, data=torch.asarray([1.0, -2.0]), a=Normal(0.0, 1.0))
    message = r"failed at the start positions.*ValueError"
    with pytest.raises(LogDensityError, match=message):
        model.start(like=torch.zeros(0), chains=3, seed=0)
    with pytest.raises(LogDensityError, match=message):
        xps.sample(model, xps.RWM(1.0), torch.zeros((3, 1)), 5, seed=1)


# ---- draws that an error must not lose -------------------------------------------------------------------------------


def normal(x):
    return -0.5 * (x**2).sum(-1)


def run(*, density=normal, kernel=None, draws=60, **settings):
    settings = {"seed": 1, "progress": False} | settings
    x0 = np.random.default_rng(0).normal(size=(4, 2))
    return xps.sample(xps.Target(density, lambda x: -x), kernel or xps.RWM(1.0), x0, draws, **settings)


class FailsAfter:
    """A log density, or a callback, that raises after so many calls."""

    def __init__(self, calls, error=ValueError):
        self.calls, self.error = calls, error

    def __call__(self, x):
        self.on_block(None)
        return normal(x)

    def on_start(self, run): ...

    def on_block(self, run):
        self.calls -= 1
        if self.calls < 0:
            raise self.error("here")

    def on_end(self, run): ...


class FailsAtTheEnd(FailsAfter):
    on_block, on_end = FailsAfter.on_start, FailsAfter.on_block


class NoResult(Recorder, eq=True):
    name = "none"

    def init(self, target, state):
        return None

    def update(self, target, carry, state, info):
        return None, state.point.x

    def result(self, target, carry, rows):
        raise ValueError("here")


class NoRoom(ValueError):
    __slots__ = ()
    trace = property(lambda self: "the user's own")


FAILING = {
    "a density": lambda: {"density": FailsAfter(50)},
    "a density, under a warm-up": lambda: {"density": FailsAfter(250), "kernel": xps.RWM(), "warmup": 200},
    "a callback": lambda: {"callbacks": [FailsAfter(1, KeyError)]},
    "Ctrl-C in a callback": lambda: {"callbacks": [FailsAfter(1, KeyboardInterrupt)]},
    "a callback at the end": lambda: {"callbacks": [FailsAtTheEnd(0)]},
    "a result": lambda: {"recorders": [NoResult(), xps.Draws(), xps.Statistics(), xps.Moments()]},
}


@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING)
def test_an_error_has_the_draws_before_it(failing):
    """They are those of a run without the error, and no step is missing, not even within a block."""
    settings = failing()
    whole = run(**{k: v for k, v in settings.items() if k in ("kernel", "warmup")})
    with pytest.raises((FunctionError, ValueError, KeyError, KeyboardInterrupt), match="here") as caught:
        run(**settings)
    trace = caught.value.trace
    made = trace.draws.shape[0]
    assert 0 < made <= 60 and trace.run_statistics.steps == made  # blocks are short on a busy machine
    np.testing.assert_array_equal(trace.draws, whole.draws[:made])
    np.testing.assert_array_equal(trace.statistics["moved"], whole.statistics["moved"][:made])
    assert (trace.warmup is None) == (whole.warmup is None) and set(trace.recorded) <= {"moments"}
    if "density" in settings and trace.warmup is None:
        assert made == 50 - 3  # calls before the first step


def test_an_error_in_the_warm_up_has_its_path():
    with pytest.raises(FunctionError, match="here") as caught:
        run(density=FailsAfter(100), kernel=xps.HMC(), warmup=200)
    assert 20 < caught.value.trace.warmup["HMC.step_size"].shape[0] < 100


def test_errors_before_the_first_draw_have_no_trace_and_a_class_may_have_no_room_for_one():
    with pytest.raises(FunctionError, match="here") as caught:
        run(density=FailsAfter(4), burn_in=10)
    assert not hasattr(caught.value, "trace")
    with pytest.raises(NoRoom) as own:
        run(callbacks=[FailsAfter(1, NoRoom)])
    assert own.value.trace == "the user's own"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shards", [None, 2])
def test_a_warning_raised_as_an_error_has_the_trace(shards):
    with pytest.raises(ConvergenceWarning) as caught:
        run(kernel=xps.RWM(0.01), shards=shards)
    assert caught.value.trace.draws.shape == (60, 4, 2)
    assert {"mixing", "walk", "rhat"} & {finding.kind for finding in caught.value.trace.diagnose()}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("particles", [xps.TemperedSMC, xps.AIS])
def test_a_warning_of_particles_has_the_trace(particles):
    kernel = particles(xps.RWM(0.5), betas=(0.0, 0.1, 0.5, 1.0))
    with pytest.raises(ConvergenceWarning, match=r"beta 0\.5") as caught:
        run(kernel=kernel, draws=1, burn_in=1)
    assert caught.value.trace.draws.shape == (1, 4, 2) and caught.value.trace.state is not None


def test_a_warning_that_is_none_holds_no_trace():
    with pytest.warns(ConvergenceWarning) as told:
        run(kernel=xps.RWM(0.01))
    assert all(warning.message.trace is None for warning in told)


@pytest.mark.filterwarnings("error")
def test_a_save_that_fails_as_an_error_has_the_trace(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(SavedRun, "_save", full)
    with pytest.raises(Warning, match="no space left") as caught:
        run(checkpoint=tmp_path)
    assert caught.value.trace.draws.shape[0] == 60


class LosesAWorker(Executor):
    """An executor whose worker is lost with the second task."""

    tasks = 0

    def submit(self, f, *args):
        future, self.tasks = Future(), self.tasks + 1
        if self.tasks == 1:
            future.set_result(f(*args))
        else:
            future.set_exception(BrokenExecutor("gone"))
        return future


def test_shards_before_a_failed_one_are_in_the_error():
    """Or before a worker that is lost."""
    whole = run(shards=2)
    for error, settings in ((FunctionError, {"density": FailsAfter(80)}), (WorkerError, {"executor": LosesAWorker()})):
        with pytest.raises(error) as caught:
            run(shards=2, **settings)
        np.testing.assert_array_equal(caught.value.trace.draws, whole.draws[:, :2])


def test_what_a_callback_of_the_host_computes_on_jax_may_fail(monkeypatch):
    """JAX's programs take the memory of their arguments, and an error would take the draws along.

    Blocks of a slow function are waited for, one by one; those of a fast one may be lost with it.
    """
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(loop, "SECONDS", 1e-9)
    monkeypatch.setattr(loop, "SHORT", 0.0)
    library, host = open_library("jax", "float32"), FailsAfter(50)

    def density(x):
        return jax.pure_callback(lambda x: host(np.asarray(x)), jax.ShapeDtypeStruct(x.shape[:-1], x.dtype), x)

    with pytest.raises(RuntimeError, match="here") as caught:
        xps.sample(xps.Target(density), xps.RWM(1.0), library.array(np.zeros((4, 2))), 90, seed=1, progress=False)
    draws = np.asarray(caught.value.trace.draws)
    assert draws.shape[0] > 30 and np.isfinite(draws).all() and np.all(np.std(draws, axis=0) > 0.1)


def test_a_training_that_fails_has_what_it_trained():
    """`fit` has no trace: its errors have `fitted`, such as the losses that lead to the fault."""
    torch = pytest.importorskip("torch")
    rows, start = torch.asarray(np.random.default_rng(0).normal(size=(50, 1))), torch.ones(1, dtype=torch.float64)
    calls = FailsAfter(30)

    def score(x, parameters):
        calls.on_block(None)
        return -parameters * x

    with pytest.raises(FunctionError, match="here") as caught:
        score_mh.fit(score_mh.Denoising(0.5, score), start, rows, epochs=90, seed=1)
    assert 0 < len(caught.value.fitted.losses) < 30 and caught.value.fitted.parameters.shape == (1,)
