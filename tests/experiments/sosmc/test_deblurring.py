"""The blur, and the posterior of an image and of the strength of its prior."""

import numpy as np
import pytest

from tests.prox.test_prox import difference_matrix
from xpsample.experiments.sosmc.deblurring import UniformBlur, deblurring, likelihood_gradient, strength
from xpsample.kernels import MYULA
from xpsample.optimize.optimizers import SGD
from xpsample.prox import IsotropicTV
from xpsample.sampling.sampler import sample
from xpsample.sosmc import SOSMC, LangevinMove, Unweighted
from xpsample.targets import Capability

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


def test_adjoint_in_an_inner_product():
    blur, x, y = UniformBlur((40, 30), 5), *np.random.default_rng(1).normal(size=(2, 1200))
    np.testing.assert_allclose(blur.apply(x) @ y, x @ blur.adjoint(y), rtol=1e-10)


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


def test_myula_moves_towards_the_observation(library):
    """With little noise and a weak prior, an image that is not blurred is found."""
    y = image(3)
    variation = IsotropicTV(SHAPE, 5)
    target = deblurring(library.array(y), UniformBlur(SHAPE, 0), SCALE, variation, theta=-9.0)
    kernel = MYULA(0.1, variation, 0.4, strength)
    x = library.array(image(4, 3))
    bound = target.prepare(x, kernel.requires)
    state = kernel.init(bound, x)
    for _ in range(30):
        state, _ = kernel.step(bound, state, {"proposal": library.xp.zeros_like(x)})
    np.testing.assert_allclose(library.host(state.point.x), np.broadcast_to(y, (3, 35)), atol=1e-3)


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
