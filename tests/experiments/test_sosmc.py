"""SOSMC: quick runs, and their problems against closed forms, quadrature and other generators."""

import numpy as np
import pytest
from array_api_compat import numpy as numpy_xp
from scipy.special import logsumexp
from scipy.stats import norm

from tests.prox.test_prox import difference_matrix
from xpsample.experiments.sosmc import ebm2d_problems as problems
from xpsample.experiments.sosmc import problems as mixtures
from xpsample.experiments.sosmc.deblur import METHODS as BLUR_METHODS
from xpsample.experiments.sosmc.deblur import SETUPS
from xpsample.experiments.sosmc.deblurring import UniformBlur, deblurring, likelihood_gradient, strength
from xpsample.experiments.sosmc.ebm2d import METHODS as PLANAR_METHODS
from xpsample.experiments.sosmc.ebm2d_figures import ALONG, rows_along
from xpsample.experiments.sosmc.ebm2d_tilts import DRAWS, TILTS, Tilts, tilted
from xpsample.experiments.sosmc.langevin import NLL, methods
from xpsample.experiments.sosmc.methods import WithNorms
from xpsample.experiments.sosmc.mnist import METHODS as IMAGE_METHODS
from xpsample.experiments.sosmc.mnist import REWARDS as IMAGE_REWARDS
from xpsample.kernels import MALA, MYULA
from xpsample.optimize.optimizers import SGD
from xpsample.prox import IsotropicTV
from xpsample.sampling.sampler import sample
from xpsample.sosmc import SOSMC, LangevinMove, Unweighted
from xpsample.targets import Capability


def test_norms_of_the_gradients_of_each_run():
    """And the optimizer's own step."""
    gradients = np.random.default_rng(0).normal(size=(4, 2, 3, 1))  # (update, run, ...)
    ours, theta = WithNorms(SGD(0.5)), {"a": np.zeros((2, 3)), "b": np.zeros((2, 1))}
    state = ours.init(theta)
    for g in gradients:
        step, state = ours.update({"a": g[..., 0], "b": g[:, 0]}, state, theta)
        np.testing.assert_array_equal(step["a"], -0.5 * g[..., 0])
    norms = np.sqrt(np.sum(gradients**2, axis=(2, 3)) + gradients[:, :, 0, 0] ** 2)
    mean, sd = state.mean_and_sd()
    np.testing.assert_allclose(mean, norms.mean(axis=0))
    np.testing.assert_allclose(sd, norms.std(axis=0))


# ---- energy models in the plane --------------------------------------------------------------------------------------


def test_planar_models(quick):
    rows, out = quick("sosmc-ebm2d")
    cells = [(method, beta) for method in PLANAR_METHODS for beta in (0.25, 1.0)]
    models, tilts = [[r for r in rows if (r["dataset"] == TILTS) == tilt] for tilt in (False, True)]
    assert [(r["method"], r["beta"]) for r in models] == [(r["method"], r["beta"]) for r in tilts] == cells
    for row in models:
        assert row["start"] + 0.02 < row["model"] < row["optimum"]
        assert row["loss_optimum"] < row["loss"] < -row["start"]
        if row["method"] == "ImpDiff":
            assert row["model"] - row["particles"] > 0.03
        else:  # 200 particles: five standard errors are 0.1; weights keep them at the model
            assert row["particles"] == pytest.approx(row["model"], abs=0.1)
    with np.load(out / "curves.npz") as file:
        kept = dict(file)
    for row in tilts:
        losses = kept[f"{TILTS} {row['method']} {row['beta']:g}"]
        assert losses.shape == (100, DRAWS) and np.all(losses > 0)  # no tilt is below the least
        assert row["above"] == pytest.approx(np.mean(losses[-1]), rel=1e-4)
        # At beta = 1 the tilt has arrived; weighted particles are with it, and the others, in their modes, are not.
        assert (abs(row["particles"] - row["model"]) < 0.05) == (row["method"] != "ImpDiff")
    # New chains along the tuning: the last are those of the end, without their first steps.
    short, paths = kept["moons SOSMC-ULA short"], kept["moons SOSMC-ULA paths"]
    assert short.shape == (ALONG, 2) and np.all(np.std(short, axis=0) > 0)
    assert short[-1, 0] == pytest.approx(np.mean(problems.lower(paths[8:])), abs=1e-6)
    np.testing.assert_array_equal(rows_along(20), [3, 7, 11, 15, 19])
    for method in PLANAR_METHODS:  # one step of 0.005 under models that hardly differ, from equal starts and noise
        np.testing.assert_allclose(kept[f"moons {method} paths"][0], paths[0], atol=0.05)


def test_data_are_those_of_scikit_learn():
    made = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(0)
    for ours, theirs in ((problems.moons, made.make_moons), (problems.circles, made.make_circles)):
        np.testing.assert_allclose(ours(101, rng, noise=0.0), theirs(101, shuffle=False)[0], atol=1e-12)
    far, labels = made.make_blobs(3000, centers=problems.CENTRES, cluster_std=0.5, random_state=0)
    near = problems.blobs(3000, rng)
    for k in range(3):  # standard errors are 0.016 of a mean and 0.011 of a standard deviation
        one, other = near[k::3], far[labels == k]
        np.testing.assert_allclose(np.mean(one, axis=0), np.mean(other, axis=0), atol=0.1)
        np.testing.assert_allclose(np.std(one, axis=0), np.std(other, axis=0), atol=0.07)


@pytest.mark.parametrize("name", problems.DATASETS)
def test_standardised_data(name):
    x = problems.DATASETS[name].draw(600, 1)
    np.testing.assert_allclose(np.mean(x, axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.std(x, axis=0), problems.DATASETS[name].scale)
    assert np.max(np.abs(x)) < problems.EDGE


def test_the_half_planes():
    """Two and two of them are a plane without a line."""
    x = np.random.default_rng(0).normal(size=(50, 3, 2))
    found = {name: reward(x) for name, reward in problems.REWARDS.items()}
    np.testing.assert_array_equal(found["lower"] + found["upper"], 1)
    np.testing.assert_array_equal(found["left"] + found["right"], 1)
    np.testing.assert_array_equal(found["lower"], x[..., 1] < 0)
    np.testing.assert_array_equal(found["right"], x[..., 0] > 0)


def test_another_half_plane_and_number_of_particles(rows_of, tmp_path):
    rows, text = rows_of("sosmc-ebm2d", "--reward", "left", "--data", "moons", "--particles", "100")
    assert "100 particles" in text and all(row["start"] + 0.02 < row["model"] < row["optimum"] for row in rows)
    with np.load(tmp_path / "curves.npz") as kept:
        assert {kept[f"moons {method} paths"].shape for method in PLANAR_METHODS} == {(100, 20, 2)}


def test_quadrature_and_draws_of_a_normal_density():
    grid = problems.Grid.of(240)
    first, second = ((grid.points - [0.5, -0.4]) / [0.8, 0.6]).T
    logs = grid.normalised(-0.5 * (first**2 + second**2))
    mass = norm.cdf(0.4 / 0.6)
    # The midpoint rule is off by side^2 / 24 times the slope at the edge, 6e-5.
    assert np.exp(logs) @ problems.lower(grid.points) == pytest.approx(mass, abs=1e-4)
    x = grid.draw(logs, (2, 5000), np.random.default_rng(2))
    # 10,000 draws: five standard errors are 0.022.
    assert np.mean(problems.lower(x)) == pytest.approx(mass, abs=0.022)
    np.testing.assert_allclose(np.mean(x, axis=(0, 1)), [0.5, -0.4], atol=0.04)
    np.testing.assert_allclose(np.var(x, axis=(0, 1)), [0.6402, 0.3602], rtol=0.08)


@pytest.mark.parametrize("beta", [0.25, 1.0, 4.0])
def test_optimum_against_all_masses_of_the_half_plane(beta):
    """Among tilts by a constant on the half-plane, of mass p, the loss is -p + beta KL(p || mass)."""
    mass, p = 0.3, np.arange(1, 100_000) / 100_000
    kl = p * np.log(p / mass) + (1 - p) * np.log((1 - p) / (1 - mass))
    best = np.argmin(beta * kl - p)
    found = problems.optimum(mass, beta)
    np.testing.assert_allclose(found, [p[best], kl[best], beta * kl[best] - p[best]], atol=1e-4)


def test_tilts_of_the_blobs():
    """The start is the blobs' own mixture; the score is the slope."""
    x, theta = np.random.default_rng(0).normal(size=(1, 5, 2)), np.array([[[0.3, -0.7, 0.2]]])
    target, h = tilted(1), 1e-5
    mixture = sum(norm.pdf(x - center, scale=0.5).prod(-1) for center in problems.CENTRES) / 3
    # The mixture without the normalizer of its components, 2 pi sd^2.
    expected = np.log(mixture * 2 * np.pi * 0.25)
    np.testing.assert_allclose(target.log_density(x, 0 * theta), expected, rtol=1e-12)
    tilt = 0.3 * x[..., 0] - 0.7 * x[..., 1] + 0.1 * np.sum(x * x, axis=-1)
    np.testing.assert_allclose(target.log_density(x, theta), expected + tilt, rtol=1e-12)
    for k in range(2):
        step = h * np.eye(2)[k]
        slope = (target.log_density(x + step, theta) - target.log_density(x - step, theta)) / (2 * h)
        np.testing.assert_allclose(target.score(x, theta)[..., k], slope, rtol=1e-6)


@pytest.mark.parametrize("beta", [0.25, 1.0, 4.0])
def test_the_least_loss_of_the_tilts(beta):
    """By a search that knows no gradient; the gap to the best of all distributions stays."""
    minimize = pytest.importorskip("scipy.optimize").minimize
    tilts = Tilts.of(problems.Grid.of(60), problems.lower)
    found = minimize(lambda theta: tilts.reward_and_loss(theta, beta)[1], np.zeros(3), method="Nelder-Mead")
    assert tilts.least(beta) == pytest.approx(found.fun, abs=1e-6)
    mass = tilts.reward_and_loss(np.zeros(3), beta)[0]
    # Two of three blobs, two standard deviations below the line, and one four above: 2/3 Phi(2) + 1/3 Phi(-4).
    assert mass == pytest.approx(2 / 3 * norm.cdf(2) + norm.cdf(-4) / 3, abs=2e-3)
    assert tilts.least(beta) > problems.optimum(mass, beta).loss + 0.001


# ---- Langevin --------------------------------------------------------------------------------------------------------

METHODS = list(methods(2))


def test_langevin(quick):
    """At the end one component has nearly all weight, and U is near its own mean of 1, but for particles that lag."""
    rows, out = quick("sosmc-langevin")
    rows = {(r["problem"], r["floor"], r["method"]): r for r in rows}
    assert len(rows) == 3 * len(METHODS)
    smooth, tight = mixtures.PROBLEMS[0].name, mixtures.PROBLEMS[3].name
    for method in METHODS[3:]:
        assert rows[smooth, mixtures.FLOOR, method]["mixture"] > 0.55
        assert rows[tight, mixtures.FLOOR, method]["mixture"] > 0.3
        assert rows[tight, 0.0, method]["diverged"] == 0
    assert (
        rows[smooth, mixtures.FLOOR, "ImpDiff"]["particles"]
        < rows[smooth, mixtures.FLOOR, "SOSMC-ULA"]["particles"] - 0.1
    )
    assert rows[tight, 0.0, "SOSMC-ULA"]["diverged"] > 0.1
    assert rows[tight, mixtures.FLOOR, "SOSMC-ULA"]["ess"] < 0.5
    courses, label = np.load(out / "curves.npz"), f"1 Adam {smooth} {mixtures.FLOOR:g}"
    assert len(courses.files) == 2 * 3 * len(METHODS)
    energies = {method: courses[f"{label} {method}{NLL}"] for method in METHODS}
    assert all(energies[method].shape == courses[f"{label} {method}"].shape for method in METHODS)
    assert all(np.all(np.abs(energies[method][-1] - 1.0) < 0.4) for method in METHODS[2:])
    assert np.all(energies["ImpDiff"][-1] > 3.0)


def test_the_best_reachable_rewards():
    found = [np.max(p.component_rewards) for p in mixtures.PROBLEMS]
    np.testing.assert_allclose(found, (0.6485, 0.0185, 0.0367, 0.3996), atol=1e-4)
    hard = mixtures.Reward((4.0, 0.0), 2.5, False)
    np.testing.assert_allclose(hard(np.asarray([[4.0, 0.0], [-0.1, 0.0], [0.0, 0.0]])), [0.4, 0.0, np.exp(-0.8) / 2.5])
    smooth = mixtures.Reward((4.0, 3.8), 0.7, True)
    assert smooth(np.asarray([4.0, 3.8])) == pytest.approx(1 / (1 + np.exp(-8.0)) / 0.7)


def test_the_reward_of_several_places_is_eq_31(library):
    reward = mixtures.MultiReward(((3.0, 0.0), (-3.0, 1.0), (0.0, 5.0)), 4.0)
    x = 3 * np.random.default_rng(0).normal(size=(5, 7, 2))
    each = [np.exp(-np.sum((x - centre) ** 2, axis=-1) / 4.0) for centre in reward.centres]
    np.testing.assert_allclose(library.host(reward(library.array(x))), np.max(each, axis=0), rtol=1e-12)
    two = mixtures.Problem(
        "two", mixtures.DUAL, 0.01, np.zeros(2), mixtures.MultiReward(((3.0, 0.0), (-3.0, 1.0)), 1.0), 0.0
    )
    # A narrow component has nearly the reward of its mean: 1 and exp(-1), less the variance.
    np.testing.assert_allclose(two.component_rewards, [1 / 1.02, np.exp(-1 / 1.02) / 1.02], rtol=1e-6)


@pytest.mark.parametrize("floor", [0.0, mixtures.FLOOR])
@pytest.mark.parametrize("problem", mixtures.PROBLEMS, ids=lambda p: p.name)
def test_the_family_is_eq_26(library, problem, floor):
    rng = np.random.default_rng(0)
    # Near the means and far off, where only the floor acts.
    x = problem.means[rng.integers(len(problem.means), size=(2, 5))] + rng.normal(size=(2, 5, 2))
    target = mixtures.family(problem, floor, 2)
    bound = target.prepare(library.array(x), MALA(0.1).requires)
    theta = rng.normal(size=(2, 1, len(problem.means)))
    point = bound.member(library.array(theta)).evaluate(library.array(x))

    def exact(x):
        squared = np.sum((x[..., None, :] - problem.means) ** 2, axis=-1)
        logs = np.log(mixtures.softmax(theta)) - 0.5 * squared / problem.variance
        return np.logaddexp(logsumexp(logs, axis=-1), np.log(floor) if floor else -np.inf)

    np.testing.assert_allclose(library.host(point.log_density), exact(x), rtol=1e-9)
    slopes = [(exact(x + h) - exact(x - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(library.host(point.score), np.stack(slopes, axis=-1), rtol=1e-5, atol=1e-6)


def test_draws_of_the_reference():
    problem, n = mixtures.PROBLEMS[2], 20_000
    rng = np.random.default_rng(1)
    batch = mixtures.reference(problem, n)
    drawn = batch.draw(numpy_xp, None, {"normal": rng.normal(size=(1, n, 2)), "which": rng.random((1, n))})[0]
    for points in (drawn, mixtures.start_positions(problem, 1, n, 0)[0]):
        nearest = np.argmin(np.sum((points[:, None] - problem.means) ** 2, axis=-1), axis=1)
        shares = mixtures.softmax(problem.start)
        # Some draws are nearer to another mean: at most P(|z| > 2), per neighbor, of what the larger ones have.
        leak = 2 * norm.sf(2.0) * shares.max()
        assert np.all(np.abs(np.bincount(nearest, minlength=6) / n - shares) < leak + 5 * 0.5 / np.sqrt(n))
        np.testing.assert_allclose(np.mean(points, axis=0), shares @ problem.means, atol=5 * 3 / np.sqrt(n))


# ---- MNIST -----------------------------------------------------------------------------------------------------------


def test_mnist(quick):
    rows, out = quick("sosmc-mnist")
    rows = {r["method"]: r for r in rows}
    assert list(rows) == list(IMAGE_METHODS)
    for row in rows.values():
        assert np.isfinite(row["fresh"]) and row["diverged"] == 0 and row["reward"] == "bright"
    assert rows["ImpDiff"]["ess"] == pytest.approx(1) and rows["ImpDiff"]["gamma"] == 3e-3
    assert 1 / 8 <= rows["SOSMC-ULA"]["ess"] < 1 and rows["SOSMC-ULA"]["gamma"] != 3e-3
    assert rows["ImpDiff"]["resampled"] == 0 < rows["SOSMC-ULA"]["resampled"]
    kept = np.load(out / "curves.npz")
    changed = kept["bright 0.1 SOSMC-ULA images"] - kept["pretrained"]
    assert np.max(np.abs(changed)) > 1e-3  # other parameters, under the same noise
    for name in ("pretrained", "bright 0.1 SOSMC-ULA"):
        way, end = kept[f"{name} way"], kept["pretrained" if name == "pretrained" else f"{name} images"]
        assert way.shape == (10, 8, 784)
        np.testing.assert_array_equal(way[-1], end)
        assert np.all(np.max(np.abs(np.diff(way, axis=0)), axis=(1, 2)) > 0)


def test_rewards(library):
    images = np.random.default_rng(0).uniform(-1.5, 1.5, (2, 3, 784))
    clamped = np.clip(images, -1, 1).reshape(2, 3, 28, 28)
    lower, upper = clamped[..., 14:, :].sum(axis=(-1, -2)) / 392, clamped[..., :14, :].sum(axis=(-1, -2)) / 392
    expected = {"bright": (lower + upper) / 2, "dark": -(lower + upper) / 2, "half": (lower - upper) / 2}
    for name, reward in IMAGE_REWARDS.items():
        np.testing.assert_allclose(library.host(reward(library.array(images))), expected[name], rtol=1e-12, atol=1e-14)


# ---- deblurring ------------------------------------------------------------------------------------------------------


def test_deblurring(quick):
    rows, out = quick("sosmc-deblur")
    rows = {row["method"].removesuffix(" numpy"): row for row in rows}
    assert list(rows) == ["the observation", *BLUR_METHODS]
    blurred = rows.pop("the observation")
    assert blurred["theta"] is None
    for row in rows.values():
        # The prior is negligible yet, so theta goes up by its rate.
        assert row["theta"] == pytest.approx(-15 + 150 * 0.01, abs=1e-3)
        assert row["mse_mean"] <= row["mse"] < blurred["mse"]
        assert 1.0 <= row["ess"] <= 20.0 and row["gap"] < 1e-6
    assert rows["SOSMC"]["ess"] < 20.0 == rows["MYPGD"]["ess"]
    steps = {name: row["step"] for name, row in rows.items()}
    assert steps["MYPGD"] == steps["SOSMC"] == 0.01 > steps["SOSMC, by ESS"]
    assert steps["MYPGD, grown"] == steps["SOSMC, grown"] == pytest.approx(0.01 * 1.01**150, rel=1e-4)
    # More time has passed with the larger step.
    assert rows["MYPGD, grown"]["mse"] < rows["MYPGD"]["mse"] < rows["SOSMC, by ESS"]["mse"]
    with np.load(out / "images.npz", allow_pickle=False) as images:
        assert set(images.files) == {f"A: {name}" for name in ("truth", "observation", *BLUR_METHODS)}
        assert all(images[name].shape == (32, 32) for name in images.files)
    # A patch size is a window of half of it and one.
    assert (SETUPS["A"].half_width, SETUPS["C"].half_width) == (5 // 2, 10 // 2)


SHAPE, SCALE = (7, 5), 0.6
BOTH = Capability.LOG_DENSITY | Capability.SCORE


def blur_matrix(shape, half_width):
    """Window by window, as the paper says it in words."""
    height, width = shape
    matrix = np.zeros((height * width, height * width))
    for i in range(height):
        for j in range(width):
            inside = np.zeros(shape)
            rows = slice(max(0, i - half_width), i + half_width + 1)
            inside[rows, max(0, j - half_width) : j + half_width + 1] = 1.0
            matrix[i * width + j] = inside.ravel() / inside.sum()
    return matrix


def image(seed=0, *chains):
    return np.random.default_rng(seed).uniform(0, 9, size=(*chains, SHAPE[0] * SHAPE[1]))


@pytest.mark.parametrize("half_width", [0, 1, 2, 4])
def test_blur_and_adjoint(library, half_width):
    blur, matrix, x = UniformBlur(SHAPE, half_width), blur_matrix(SHAPE, half_width), image(0, 2, 3)
    np.testing.assert_allclose(library.host(blur.apply(library.array(x))), x @ matrix.T, rtol=1e-12)
    np.testing.assert_allclose(library.host(blur.adjoint(library.array(x))), x @ matrix, rtol=1e-12)
    np.testing.assert_allclose(library.host(blur.apply(library.array(x[0, 0]))), matrix @ x[0, 0], rtol=1e-12)


def test_log_density_score_and_gradient_in_theta(library):
    variation, y, x = IsotropicTV(SHAPE), image(1), image(2, 4)
    target = deblurring(library.array(y), UniformBlur(SHAPE, 1), SCALE, variation, theta=-0.7)
    bound = target.prepare(library.array(x), BOTH)
    matrix, rows = blur_matrix(SHAPE, 1), difference_matrix(*SHAPE)

    def total_variation(one):
        down = (rows[: 6 * 5] @ one).reshape(6, 5)
        right = (rows[6 * 5 :] @ one).reshape(7, 4)
        return np.sum(np.hypot(np.pad(down, ((0, 1), (0, 0))), np.pad(right, ((0, 0), (0, 1)))))

    def log_density(one, theta):
        fit = -0.5 * np.sum((y - matrix @ one) ** 2) / SCALE**2
        return fit - np.exp(theta) * total_variation(one) + 35 * theta

    point = bound.evaluate(library.array(x))
    np.testing.assert_allclose(library.host(point.log_density), [log_density(one, -0.7) for one in x], rtol=1e-11)
    want = (y - x @ matrix.T) @ matrix / SCALE**2
    np.testing.assert_allclose(library.host(point.score), want, rtol=1e-10, atol=1e-10)
    # The gradient in theta, per pixel, by central differences of the log density.
    parameters = {"theta": library.array(np.asarray(0.2))}
    found = library.host(likelihood_gradient(variation)(library.array(x), parameters)["theta"])
    slopes = [(log_density(one, 0.2 - 1e-5) - log_density(one, 0.2 + 1e-5)) / 2e-5 for one in x]
    np.testing.assert_allclose(found, np.asarray(slopes) / 35, rtol=1e-6)
    np.testing.assert_allclose(float(strength(parameters)), np.exp(0.2))


def test_weights_take_away_the_bias_of_step_and_smoothing():
    """Two pixels, theta held: E |x2 - x1| under pi_theta by quadrature, by SOSMC-MYULA, and by MYULA alone."""
    number, variation = 20_000, IsotropicTV((1, 2), 12)
    target = deblurring(np.asarray([0.0, 1.0]), UniformBlur((1, 2), 0), 0.8, variation, theta=0.6)
    x0 = 0.8 * np.random.default_rng(5).standard_normal((number, 2)) + [0.0, 1.0]
    move = LangevinMove(0.3, drift=MYULA(0.3, variation, 0.6, strength).drift)
    found = {}
    for name, kind in (("weighted", move), ("unweighted", Unweighted(move))):
        kernel = SOSMC(likelihood_gradient(variation), kind, SGD(1e-12), threshold=0.5 * (name == "weighted"))
        state = sample(target, kernel, x0, 1, burn_in=39, seed=6, progress=False).state
        found[name] = np.sum(np.exp(state.weights.logs) * np.abs(state.point.x[:, 1] - state.point.x[:, 0]))
    assert state.parameters["theta"] == pytest.approx(0.6)
    grid = np.linspace(-5, 6, 1101)
    apart = np.abs(grid[None, :] - grid[:, None])
    log_density = -0.5 * (grid[:, None] ** 2 + (grid[None, :] - 1) ** 2) / 0.8**2 - np.exp(0.6) * apart
    density = np.exp(log_density)
    truth = np.sum(apart * density) / np.sum(density)
    spread = np.sqrt(np.sum((apart - truth) ** 2 * density) / np.sum(density))
    # 6 standard errors of a tenth as many equal weights.
    assert abs(found["weighted"] - truth) < 6 * spread / np.sqrt(number / 10)
    assert found["unweighted"] - truth > 30 * spread / np.sqrt(number)
