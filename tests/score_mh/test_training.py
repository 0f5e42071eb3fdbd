"""Training: the same on all libraries, early stopping by hand, other people's networks, and bad input."""

import signal
from typing import ClassVar

import numpy as np
import pytest
from array_api_compat import array_namespace

from xpsample import RWM, Auto, Checkpoint, FiniteDifference, Portable, Target, Via, load, sample, score_mh
from xpsample.core import tree
from xpsample.core.errors import CheckpointError, Interrupted
from xpsample.optimize.optimizers import SGD, Adam, Clipped
from xpsample.score_mh.saved_training import SavedTraining

DATA = np.random.default_rng(0).standard_normal((64, 2)) * [1.0, 0.6] + [0.5, 0.0]
SCORE = score_mh.init_score_network(2, 6, seed=3)


def train(data, loss, start, **settings):
    given = {"epochs": 3, "steps_per_epoch": 2, "batch_size": 16, "seed": Portable(4)} | settings
    return score_mh.fit(loss, start, data, **given)


CASES = {
    "sliced": (score_mh.Sliced(2), SCORE),
    "balance": (
        score_mh.ScoreBalance(
            score_mh.LangevinProposal(0.4), score_mh.score_network, SCORE, regularization=0.3, max_norm=3.0
        ),
        score_mh.init_acceptance_network(2, 6, seed=5, blocks=1),
    ),
}


@pytest.fixture(scope="module", params=CASES)
def reference(request):
    """Of NumPy arrays with torch's derivatives."""
    pytest.importorskip("torch")
    loss, start = CASES[request.param]
    found = train(DATA, loss, start, validation=DATA[:20], gradient=Via("torch"), optimizer=Clipped(Adam(0.02), 5.0))
    assert all(isinstance(leaf, np.ndarray) for leaf in tree.leaves(found.parameters))
    moved = [np.max(np.abs(a - b)) for a, b in zip(tree.leaves(found.parameters), tree.leaves(start), strict=True)]
    assert min(moved[:2]) > 0.01
    return loss, start, found


def test_the_same_on_every_library(reference, library):
    loss, start, expected = reference
    rows = library.array(DATA)
    found = train(rows, loss, start, validation=rows[:20, ...], optimizer=Clipped(Adam(0.02), 5.0))
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-9)
    np.testing.assert_allclose(found.validation_losses, expected.validation_losses, rtol=1e-9)
    for a, b in zip(tree.leaves(found.parameters), tree.leaves(expected.parameters), strict=True):
        np.testing.assert_allclose(library.host(a), b, rtol=1e-8, atol=1e-10)


class Stopped(Exception):
    """What a kill looks like."""


def test_a_killed_training_goes_on(differentiating, tmp_path, monkeypatch):
    rows, start = differentiating.array(DATA), score_mh.init_score_network(2, 4, seed=1)
    settings = {"epochs": 8, "validation": rows[:20, ...], "patience": 4, "optimizer": Adam(0.3), "seed": 7}
    expected = train(rows, score_mh.Denoising(0.5), start, **settings)
    assert len(expected.losses) > 4

    saves, save = [], SavedTraining.save

    def killed(self, state, losses):
        save(self, state, losses)
        saves.append(self.step)
        if len(saves) == 3:
            raise Stopped

    folder = Checkpoint(tmp_path / "run", every=0)
    with monkeypatch.context() as patch:
        patch.setattr(SavedTraining, "save", killed)
        patch.setattr(score_mh.training, "SECONDS", 1e-9)  # blocks of one epoch
        with pytest.raises(Stopped):
            train(rows, score_mh.Denoising(0.5), start, checkpoint=folder, **settings)
    assert saves == [1, 2, 3]
    for _ in range(2):  # and once more, when it is finished
        found = train(rows, score_mh.Denoising(0.5), start, checkpoint=folder, **settings)
        np.testing.assert_array_equal(found.losses, expected.losses)
        np.testing.assert_array_equal(found.validation_losses, expected.validation_losses)
        assert found.stopped_early == expected.stopped_early
        for a, b in zip(tree.leaves(found.parameters), tree.leaves(expected.parameters), strict=True):
            np.testing.assert_array_equal(differentiating.host(a), differentiating.host(b))


@pytest.fixture
def interruptible():
    """A shell that starts a program in the background lets it ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("validated", [False, True])
def test_ctrl_c_keeps_what_was_trained(tmp_path, interruptible, validated, monkeypatch):
    monkeypatch.setattr(score_mh.training, "SECONDS", 1e-9)  # blocks of one epoch
    settings = {"epochs": 40, "gradient": FiniteDifference(), "optimizer": SGD(0.05), "batch_size": 8}
    settings |= {"validation": DATA[:20]} if validated else {}
    rows, start = DATA, {"p": np.zeros(2)}

    class Signalling(Quadratic):
        """Sends Ctrl-C so many times in the sixth epoch."""

        def __init__(self, times):
            self.times = times

        def __call__(self, parameters, x, noise, constants, progress):
            while progress == 5 / 39 and self.times:
                self.times -= 1
                signal.raise_signal(signal.SIGINT)
            return super().__call__(parameters, x, noise, constants, progress)

    whole = train(rows, Quadratic(), start, **settings)
    for times, done in ((1, 6), (2, 5)):  # the second one abandons the epoch
        with pytest.raises(Interrupted, match=rf"Ctrl-C after {done} of 40 epochs.*sys.last_value.fitted") as stop:
            train(rows, Signalling(times), start, **settings)
        fitted = stop.value.fitted
        assert len(fitted.losses) == done and stop.value.trace is None and not fitted.stopped_early
        assert np.all(fitted.parameters["p"] != 0) and (fitted.validation_losses is not None) == validated
        np.testing.assert_array_equal(fitted.losses, whole.losses[:done])

    with pytest.raises(Interrupted, match="from where the same call continues"):
        train(rows, Signalling(1), start, checkpoint=tmp_path, **settings)
    again = train(rows, Signalling(0), start, checkpoint=tmp_path, **settings)
    np.testing.assert_array_equal(again.losses, whole.losses)
    np.testing.assert_array_equal(again.parameters["p"], whole.parameters["p"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"loss": score_mh.Denoising(0.6)}, "loss/.*: 0.5 there, 0.6 here"),
        (
            {"loss": score_mh.Denoising(0.5, lambda x, p: 1.001 * score_mh.score_network(x, p))},
            "update norm of the first parameters",
        ),
        ({"optimizer": Clipped(Adam(0.3), 6.0)}, "optimizer/max_norm: 5.0 there, 6.0 here"),
        ({"optimizer": SGD(0.3)}, "optimizer: 'Clipped' there, 'SGD' here"),
        ({"batch_size": None}, "batch_size: 16 there, None here"),
        ({"epochs": 9}, "epochs: 3 there, 9 here"),
        ({"data": 2 * DATA}, "data/rows"),
        ({"seed": 8}, "noise/seed: 7 there, 8 here"),
        ({"validation": None}, "data/validation"),
        ({"start": score_mh.init_score_network(2, 4, seed=2)}, "data/start"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(changed, message, tmp_path):
    torch = pytest.importorskip("torch")
    rows = torch.tensor(DATA)
    settings = {
        "loss": score_mh.Denoising(0.5),
        "start": score_mh.init_score_network(2, 4, seed=1),
        "optimizer": Clipped(Adam(0.3), 5.0),
    }
    settings |= {"checkpoint": tmp_path, "seed": 7, "validation": rows[:20]}
    train(rows, **settings)
    other = torch.tensor(changed.pop("data")) if "data" in changed else rows
    with pytest.raises(CheckpointError, match=message):
        train(other, **settings | changed)
    train(
        rows, **settings | {"loss": score_mh.Denoising(0.5, lambda x, p: score_mh.score_network(x, p))}
    )  # the same in other words
    with pytest.raises(CheckpointError, match="is the checkpoint of a training: make the call of fit again"):
        load(tmp_path)


@pytest.mark.slow
def test_an_optimizer_that_differs_later_is_refused(tmp_path):
    """It makes the same first updates; at the saved state they differ."""
    optax, jnp = pytest.importorskip("optax"), pytest.importorskip("jax.numpy")
    rows = jnp.asarray(DATA.astype(np.float32))

    def call(after, **settings):
        schedule = optax.piecewise_constant_schedule(0.02, {4: after})
        return train(
            rows, score_mh.Denoising(0.5), SCORE, optimizer=optax.adam(schedule), checkpoint=tmp_path, **settings
        )

    call(0.5)
    with pytest.raises(CheckpointError, match="update norm of the saved parameters"):
        call(0.1)


def test_checkpoints_of_runs_and_of_trainings_are_told_apart(tmp_path):
    settings = {"gradient": FiniteDifference(), "checkpoint": tmp_path / "fit"}
    train(DATA, Quadratic(), {"p": np.zeros(2)}, **settings)
    target, kept = Target(lambda x: -0.5 * np.sum(x**2, axis=-1)), {"seed": 1}
    with pytest.raises(CheckpointError, match="checkpoint"):
        sample(target, RWM(1.0), np.zeros((2, 2)), 10, checkpoint=tmp_path / "fit", **kept)
    sample(target, RWM(1.0), np.zeros((2, 2)), 10, checkpoint=tmp_path / "run", **kept)
    with pytest.raises(CheckpointError, match="checkpoint of another training"):
        train(DATA, Quadratic(), {"p": np.zeros(2)}, **settings | {"checkpoint": tmp_path / "run"})


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_layout_of_parameters_is_kept(order, tmp_path):
    """Some libraries round a product of matrices by how these lie in memory."""
    torch = pytest.importorskip("torch")
    rows, rng = torch.tensor(DATA), np.random.default_rng(1)
    start = {"w": np.asarray(rng.normal(size=(2, 7)), order=order), "v": rng.normal(size=(7, 2))}
    loss = score_mh.Denoising(0.5, lambda x, p: torch.tanh(x @ p["w"]) @ p["v"])
    settings = {"optimizer": SGD(0.01, 0.9), "checkpoint": tmp_path}
    train(rows, loss, start, **settings)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SavedTraining, "save", lambda self, state, losses: found.append(state))
        train(rows, loss, start, **settings)
    expected = train(rows, loss, start, **settings | {"checkpoint": None})
    for a, b in zip(tree.leaves(found[0].parameters), tree.leaves(expected.parameters), strict=True):
        assert a.stride() == b.stride() and torch.equal(a, b)


def test_single_precision(library32):
    rows = library32.array(DATA)
    found = train(rows, score_mh.Denoising(0.5), SCORE, validation=rows[:20, ...], optimizer=Adam(0.02))
    expected = train(DATA, score_mh.Denoising(0.5), SCORE, validation=DATA[:20], optimizer=Adam(0.02))
    assert found.losses.dtype == np.float32
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-4)
    assert all(library32.host(leaf).dtype == np.float32 for leaf in tree.leaves(found.parameters))


class Quadratic(score_mh.TrainingLoss):
    """(p - mean of x)^2, with what it is given kept."""

    constants: ClassVar = {"shift": np.zeros(1)}

    def noise(self, rows, dim):
        return {}

    def __call__(self, parameters, x, noise, constants, progress):
        xp = array_namespace(x)
        return xp.sum((parameters["p"] - xp.mean(x, axis=0) - constants["shift"]) ** 2)


def test_early_stopping_by_hand(library):
    """p_t = 1 - 0.9^t towards 1; the validation's best, of 0.3, is p_3, and two epochs later it stops."""
    rows, held = library.array(np.ones((4, 1))), library.array(np.full((2, 1), 0.3))
    settings = {"epochs": 50, "batch_size": None, "steps_per_epoch": 1, "optimizer": SGD(0.05)}
    settings["gradient"] = FiniteDifference(1e-3) if library.backend.autodiff is None else Auto()
    start = {"p": np.zeros(1)}
    found = train(rows, Quadratic(), start, validation=held, patience=2, **settings)
    p = 1 - 0.9 ** np.arange(1, 6)
    assert found.stopped_early
    np.testing.assert_allclose(library.host(found.parameters["p"]), [p[2]], rtol=1e-8)
    np.testing.assert_allclose(found.validation_losses, (p - 0.3) ** 2, rtol=1e-6)
    np.testing.assert_allclose(found.losses, 0.81 ** np.arange(5), rtol=1e-8)

    whole = train(rows, Quadratic(), start, **settings)
    assert not whole.stopped_early and whole.validation_losses is None and len(whole.losses) == 50
    np.testing.assert_allclose(library.host(whole.parameters["p"]), [1 - 0.9**50], rtol=1e-8)


def test_batches_are_rows_and_progress_goes_from_0_to_1():
    class Watching(Quadratic):
        def __init__(self):
            self.seen = []

        def __call__(self, parameters, x, noise, constants, progress):
            self.seen.append((np.asarray(x), float(progress)))
            return super().__call__(parameters, x, noise, constants, progress)

    loss, rows = Watching(), np.arange(40.0)[:, None]
    train(rows, loss, {"p": np.zeros(1)}, batch_size=8, steps_per_epoch=None, gradient=FiniteDifference())
    batches = [x for x, _ in loss.seen]
    assert all(x.shape == (8, 1) and set(x[:, 0]) <= set(rows[:, 0]) for x in batches)
    assert len({tuple(x[:, 0]) for x in batches}) == 15  # 40 // 8 a epoch, three of them, all different
    assert [p for _, p in loss.seen[:: len(loss.seen) // 3]] == [0.0, 0.5, 1.0]


def test_a_torch_module_is_a_network():
    torch = pytest.importorskip("torch")
    with torch.random.fork_rng(devices=[]):  # modules draw their start from torch's global generator
        torch.manual_seed(1)
        module = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.Softplus(), torch.nn.Linear(6, 2)).double()
        pair = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 1)).double()
    parameters = {name: p.detach().clone() for name, p in module.named_parameters()}

    def network(x, parameters):
        return torch.func.functional_call(module, parameters, (x,))

    found = train(torch.tensor(DATA), score_mh.ExactTrace(network), parameters, epochs=10, optimizer=Adam(0.02))
    assert found.losses[-1] < found.losses[0] - 0.1
    x = torch.tensor(DATA, requires_grad=True)
    module.load_state_dict(found.parameters)
    torch.testing.assert_close(module(x), network(x, found.parameters))

    # And an acceptance network, on its score.
    def acceptance(x_new, x, parameters):
        return torch.func.functional_call(pair, parameters, (torch.cat([x_new, x], dim=-1),))[..., 0]

    start = {name: p.detach().clone() for name, p in pair.named_parameters()}
    loss = score_mh.ScoreBalance(score_mh.RandomWalk(0.5), network, found.parameters, network=acceptance)
    found = train(torch.tensor(DATA), loss, start, epochs=10, optimizer=Adam(0.02))
    assert found.losses[-1] < 0.6 * found.losses[0]


@pytest.mark.slow
def test_a_jax_function_is_a_network():
    jax = pytest.importorskip("jax")

    def apply(x, parameters):
        return jax.nn.silu(x @ parameters["w"]) @ parameters["v"]

    keys = jax.random.split(jax.random.key(0))
    start = {"w": jax.random.normal(keys[0], (2, 6)), "v": jax.random.normal(keys[1], (6, 2))}
    data = jax.numpy.asarray(DATA.astype(np.float32))
    found = train(data, score_mh.Denoising(0.5, apply), start, epochs=10, optimizer=Adam(0.02), seed=1)
    assert found.losses[-1] < found.losses[0] - 0.1
    assert not start["w"].is_deleted() and isinstance(found.parameters["v"], jax.Array)


def test_an_optax_optimiser():
    jax, optax = pytest.importorskip("jax"), pytest.importorskip("optax")
    data = jax.numpy.asarray(DATA.astype(np.float32))
    found = train(data, score_mh.Denoising(0.5), SCORE, optimizer=optax.adam(0.02))
    expected = train(DATA, score_mh.Denoising(0.5), SCORE, optimizer=Adam(0.02))
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-4)
