"""Two-layer tanh networks as flat positions, with their gradient: what the network targets share."""

from array_api_compat import array_namespace

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError


def dimension(inputs: int, hidden: int) -> int:
    """Number of weights and biases, ``(inputs + 2) * hidden + 1``."""
    return (inputs + 2) * hidden + 1


def layers(x: Array, features: int, hidden: int) -> tuple[Array, Array, Array, Array]:
    """Weights (*chains, features, hidden) and biases (*chains, hidden), then (*chains, hidden) and (*chains, 1)."""
    a, b, c = features * hidden, (features + 1) * hidden, (features + 2) * hidden
    if x.shape[-1] != c + 1:
        raise HyperparameterError(
            f"a network of {features} inputs and {hidden} hidden units has {c + 1} weights; got positions {x.shape}"
        )
    first = array_namespace(x).reshape(x[..., :a], (*x.shape[:-1], features, hidden))
    return first, x[..., a:b], x[..., b:c], x[..., c:]


def forward(x: Array, rows: Array, hidden: int) -> tuple[Array, Array]:
    """Hidden activities (*chains, rows, hidden) and outputs (*chains, rows).

    `rows`, (*sets, rows, features), broadcasts against the chain axes of the weights x, (*chains, dim).
    """
    xp = array_namespace(x)
    first, first_bias, second, second_bias = layers(x, rows.shape[-1], hidden)
    activity = xp.tanh(xp.matmul(rows, first) + first_bias[..., None, :])
    return activity, xp.matmul(activity, second[..., None])[..., 0] + second_bias


def backward(x: Array, rows: Array, hidden: int, activity: Array, pull: Array) -> Array:
    """Gradient in x, (*chains, dim), of a function whose gradient in the outputs is `pull`, (*chains, rows)."""
    xp = array_namespace(x)
    second = layers(x, rows.shape[-1], hidden)[2]
    inner = pull[..., None] * second[..., None, :] * (1.0 - activity * activity)
    parts = (
        xp.reshape(xp.matmul(xp.matrix_transpose(rows), inner), (*x.shape[:-1], -1)),
        xp.sum(inner, axis=-2),
        xp.sum(pull[..., None] * activity, axis=-2),
        xp.sum(pull, axis=-1, keepdims=True),
    )
    return xp.concat(parts, axis=-1)
