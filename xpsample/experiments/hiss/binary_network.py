"""Neural networks whose weights are -1 or 1 (HiSS, Section 6.4 and Appendix D.5)."""

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.special import accurate_sigmoid
from xpsample.experiments import two_layer
from xpsample.spaces.discrete import Spins
from xpsample.targets.target import Target


def dimension(inputs: int, hidden: int = 100) -> int:
    """Number of weights and biases, ``(inputs + 2) * hidden + 1``."""
    return two_layer.dimension(inputs, hidden)


def binary_network(
    inputs: np.ndarray, outputs: np.ndarray, hidden: int = 100, scale: float = 100.0, squashed: bool = True
) -> Target:
    """A two-layer tanh network with all weights and biases in {-1, 1}: log density ``-scale * mean squared error``.

    The HiSS paper prints the sum of squared errors, which is ``scale = rows``. Its public code has scale 100 and a
    sigmoid at the output, `squashed`. Inputs are (rows, features) and outputs (rows,). Positions have
    ``dimension(features, hidden)`` coordinates: weights (features, hidden) of the first layer with the hidden axis
    changing fastest, its biases (hidden,), then the weights (hidden,) and the bias of the second. The target is on
    `Spins`, with score, the gradient in real weights. Differences need an evaluation for each flip. Rows with equal
    inputs are computed once, with their mean output; the spread of their outputs adds a constant.
    """
    inputs, outputs = np.asarray(inputs, dtype=np.float64), np.asarray(outputs, dtype=np.float64)
    if inputs.ndim != 2 or outputs.shape != inputs.shape[:1] or not len(inputs):
        raise HyperparameterError(
            f"inputs have shape (rows, features) and outputs (rows,); got {inputs.shape} and {outputs.shape}"
        )
    if hidden < 1 or not scale > 0:
        raise HyperparameterError(f"hidden and scale must be positive; got {hidden} and {scale}")

    rows, group, counts = np.unique(inputs, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)  # NumPy 2.0 keeps the axis
    means = np.bincount(group, outputs) / counts
    least = float(np.mean((outputs - means[group]) ** 2))

    def loss(error: Array, data: Any) -> Array:
        """Mean squared error of all rows."""
        return least + array_namespace(error).sum(data["shares"] * error * error, axis=-1)

    def log_density(x: Array, data: Any) -> Array:
        return -scale * loss(_forward(x, data["inputs"], hidden, squashed)[1] - data["outputs"], data)

    def both(x: Array, data: Any) -> tuple[Array, Array]:
        rows = data["inputs"]
        activity, output = _forward(x, rows, hidden, squashed)
        error = output - data["outputs"]
        value = -scale * loss(error, data)
        # Backwards, from the output's sum (*chains, rows) to the hidden units' (*chains, rows, hidden).
        pull = -2.0 * scale * data["shares"] * error
        pull = pull * output * (1.0 - output) if squashed else pull
        return value, two_layer.backward(x, rows, hidden, activity, pull)

    return Target(
        log_density,
        score=lambda x, data: both(x, data)[1],
        log_density_and_score=both,
        data={"inputs": rows, "outputs": means, "shares": counts / len(inputs)},
        space=Spins(),
    )


def predict(x: Array, inputs: Array, hidden: int = 100, squashed: bool = True) -> Array:
    """Outputs of networks x (*chains, dim) for inputs (rows, features) of the same library: (*chains, rows)."""
    return _forward(x, inputs, hidden, squashed)[1]


class Fit(NamedTuple):
    """Log likelihood and root mean square error per network, (*chains)."""

    log_likelihood: Array
    rmse: Array


def fit(predictions: Array, outputs: Array) -> Fit:
    """Goodness of fit of predictions (*chains, rows) to outputs (rows,), as in the HiSS paper (Tables 2 and 5).

    Its "average log likelihood" uses ``exp(-(f - y)^2)`` without constants: minus the mean squared error.
    """
    xp = array_namespace(predictions)
    squared = xp.mean((predictions - outputs) ** 2, axis=-1)
    return Fit(-squared, xp.sqrt(squared))


def _forward(x: Array, rows: Array, hidden: int, squashed: bool) -> tuple[Array, Array]:
    """Hidden activities (*chains, rows, hidden) and outputs (*chains, rows)."""
    activity, output = two_layer.forward(x, rows, hidden)
    return activity, (accurate_sigmoid(output) if squashed else output)
