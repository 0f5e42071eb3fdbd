"""The energy model of MNIST: stored values, torch's layers, differences, mirrors, every library."""

import numpy as np
import pytest

from xpsample import ULA, Portable, sample
from xpsample.core import tree
from xpsample.experiments import mnist_ebm
from xpsample.experiments.data import load_dataset

REQUIRES = ULA(1.0).requires


def random_parameters(seed=0):
    """A network of the same shape with other weights, large enough that no layer is near linear."""
    rng = np.random.default_rng(seed)

    def layer(*shape):
        fan_in = np.prod(shape[1:])
        return mnist_ebm.Layer(rng.standard_normal(shape) * 2 / np.sqrt(fan_in), rng.standard_normal(shape[0]))

    shapes = (16, 1, 5, 5), (32, 16, 3, 3), (64, 32, 3, 3), (64, 64, 3, 3)
    return mnist_ebm.Parameters(tuple(layer(*s) for s in shapes), (layer(64, 256), layer(1, 64)))


def by_torch(x, parameters):
    """f and its gradient in x with torch's own convolutions and reverse mode."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    weights = tree.map(lambda a: torch.asarray(np.array(a, dtype=np.float64)), parameters)
    start = torch.asarray(np.array(x)).requires_grad_()
    hidden = start.reshape(-1, 1, 28, 28)
    for (weight, bias), padding in zip(weights.convolutions, (4, 1, 1, 1), strict=True):
        hidden = functional.silu(functional.conv2d(hidden, weight, bias, stride=2, padding=padding))
    hidden = functional.silu(functional.linear(hidden.flatten(1), *weights.dense[0]))
    value = functional.linear(hidden, *weights.dense[1])[:, 0].reshape(x.shape[:-1])
    (gradient,) = torch.autograd.grad(value.sum(), start)
    return value.detach().numpy(), gradient.numpy()


def test_the_stored_values_of_the_pretrained_model(typed_library, data_folder):
    stored = load_dataset("mnist_ebm_uvadlc")
    x = (2.0 * load_dataset("mnist_small")["test_images"][:8] / 255.0 - 1.0).reshape(8, 784)
    images = typed_library.array(x)
    point = mnist_ebm.mnist_ebm().prepare(images, REQUIRES).evaluate(images)
    single = typed_library.dtype == "float32"
    value, parameters = typed_library.host(point.score), tree.map(typed_library.array, mnist_ebm.load_parameters())
    # The largest gradient component is 0.01; check_grad is rounded to float32.
    np.testing.assert_allclose(value, stored["check_grad"].reshape(8, 784), atol=1e-7 if single else 1e-9)
    density = typed_library.host(typed_library.compiled(mnist_ebm.negative_energy)(images, parameters))
    np.testing.assert_allclose(density, stored["check_output"], atol=1e-5 if single else 1e-12)
    assert point.score.dtype == images.dtype


def test_other_weights_give_what_torchs_layers_give(library):
    x = np.random.default_rng(1).uniform(-1, 1, (2, 4, 784))
    parameters = random_parameters()
    value, gradient = by_torch(x, parameters)
    there = tree.map(library.array, parameters)
    found, score = library.compiled(mnist_ebm.negative_energy_and_score)(library.array(x), there)
    np.testing.assert_allclose(library.host(found), value, rtol=1e-10)
    np.testing.assert_allclose(library.host(score), gradient, rtol=1e-8, atol=1e-10)
    alone = library.compiled(mnist_ebm.negative_energy)(library.array(x), there)
    np.testing.assert_allclose(library.host(alone), library.host(found), rtol=1e-14)


def test_the_librarys_own_gradients_agree_in_the_image_and_in_the_parameters(differentiating):
    x, parameters = np.random.default_rng(2).uniform(-1, 1, (8, 784)), random_parameters()
    there = tree.map(differentiating.array, parameters)
    autodiff = differentiating.backend.autodiff
    _, score = differentiating.compiled(mnist_ebm.negative_energy_and_score)(differentiating.array(x), there)
    _, native = autodiff.value_and_grad(mnist_ebm.negative_energy)(differentiating.array(x), there)
    np.testing.assert_allclose(differentiating.host(native), differentiating.host(score), rtol=1e-8, atol=1e-10)

    def total(p, images):
        return differentiating.xp.sum(mnist_ebm.negative_energy(images, p))

    _, gradient = autodiff.value_and_grad(total)(there, differentiating.array(x))
    direction, h = random_parameters(seed=3), 1e-5
    ahead, behind = (tree.map(lambda p, d, s=s: p + s * h * d, parameters, direction) for s in (1, -1))
    slope = np.sum(mnist_ebm.negative_energy(x, ahead) - mnist_ebm.negative_energy(x, behind)) / (2 * h)
    pairs = zip(tree.leaves(gradient), tree.leaves(direction), strict=True)
    assert sum(np.sum(differentiating.host(g) * d) for g, d in pairs) == pytest.approx(slope, rel=1e-6)


def test_the_target_is_continued_by_mirror_images(library):
    x = np.array([-0.9, -0.2, 0.0, 0.4, 1.0])
    for u in (x, 2 - x, -2 - x, x + 4, x - 4, 6 - x):
        np.testing.assert_allclose(library.host(mnist_ebm.fold(library.array(u))), x, atol=1e-12)
    rng, parameters = np.random.default_rng(5), random_parameters()
    x, v = rng.uniform(-0.9, 0.9, (4, 784)), rng.standard_normal((4, 784))
    bound = mnist_ebm.mnist_ebm(parameters).prepare(x, REQUIRES)
    mirrored = rng.random((4, 784)) < 0.5
    u = np.where(mirrored, 2.0 - x, x + 4.0)
    np.testing.assert_allclose(bound.score(u), np.where(mirrored, -1, 1) * bound.score(x), rtol=1e-9, atol=1e-10)
    density, h = bound.functions.log_density, 1e-6
    slope = (density(u + h * v, parameters) - density(u - h * v, parameters)) / (2 * h)
    np.testing.assert_allclose(np.sum(bound.score(u) * v, axis=-1), slope, rtol=1e-5)


def test_beyond_the_cube_the_density_has_no_finite_integral(data_folder):
    """f grows in proportion to the radius along digits, and on a cone of directions about them."""
    parameters = mnist_ebm.load_parameters()
    rng = np.random.default_rng(6)
    digits = 2.0 * load_dataset("mnist_small")["test_images"][:50].reshape(50, 784) / 255.0 - 1.0
    cone = digits + 0.02 * rng.standard_normal(digits.shape)
    values = [mnist_ebm.negative_energy(r * cone, parameters) for r in (100.0, 1000.0)]
    assert np.all(values[0] > 5) and np.all(values[1] > 9 * values[0])


def test_a_chain_is_the_same_on_every_library(library):
    parameters, u = random_parameters(), np.random.default_rng(7).uniform(-1, 1, (8, 784))

    def draws(array):
        return sample(mnist_ebm.mnist_ebm(parameters), ULA(1e-4), array(u), 10, seed=Portable(0), progress=False).draws

    np.testing.assert_allclose(library.host(draws(library.array)), draws(np.asarray), rtol=1e-9, atol=1e-9)
