"""What the benchmarks share: the backends, and a target that runs on all of them."""

from typing import Any

import numpy as np

import xpsample as xps
from xpsample.backend import Backend, backend_named
from xpsample.errors import BackendError

BACKENDS = ["numpy", "torch", "jax", "cupy"]
DIM = 10


def backend_or_skip(name: str) -> tuple[Backend, Any]:
    """A backend and its fastest device; NotImplementedError, asv's word for a skip, where there is none."""
    try:
        backend = backend_named(name)
    except BackendError as error:
        raise NotImplementedError(str(error)) from error
    devices = backend.devices()
    if not devices:
        raise NotImplementedError(f"{name} finds no device")
    return backend, devices[-1].device


def positions(name: str, chains: int) -> Any:
    """Start positions (chains, DIM) in float32."""
    backend, device = backend_or_skip(name)
    host = np.random.default_rng(0).normal(size=(chains, DIM)).astype("float32")
    return backend.xp.asarray(host, device=device)


def gaussian() -> xps.Target:
    """A correlated Gaussian with all derivatives given: what is timed is the sampler, not the differentiation."""
    root = np.random.default_rng(1).normal(size=(DIM, DIM)) / DIM**0.5
    precision = root @ root.T + np.eye(DIM)
    return xps.Target(
        lambda x, p: -0.5 * ((x @ p) * x).sum(-1),
        score=lambda x, p: -(x @ p),
        hvp=lambda x, v, p: -(v @ p),
        data=precision,
    )
