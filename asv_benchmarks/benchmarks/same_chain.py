"""Whether every kernel still makes the chain that it made, in float64 from portable noise.

``chains.json`` holds the last positions of 3 chains of every kernel after `STEPS` steps on NumPy. Where an algorithm is
changed on purpose, or a kernel is added, write it anew from the root of the checkout, and commit it with the change::

    python -m asv_benchmarks.benchmarks.same_chain --write mala hmc     # no names: those that are not there yet
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np

import xpsample as xps
from xpsample.core.errors import ConvergenceWarning
from xpsample.core.registry import to_host

from .cases import CASES
from .common import DEVICES, device_or_skip, put, wide

STORED = Path(__file__).with_name("chains.json")
WRITE = "python -m asv_benchmarks.benchmarks.same_chain --write"
STEPS, CHAINS, DIM = 60, 3, 10
TOLERANCE = 1e-8
"""Below it a deviation is rounding, of 1e-13 or so; another algorithm gives much more."""


class SameChain:
    """Largest deviation of the last positions from the stored ones, 0 where rounding explains it."""

    params = (list(CASES), DEVICES)
    param_names = ("kernel", "device")
    unit = "largest deviation"
    timeout = 120

    def setup(self, kernel: str, device: str) -> None:
        device_or_skip(device)
        if kernel not in json.loads(STORED.read_text()):  # asv's word for a skip, without a traceback
            raise NotImplementedError(f"{kernel} has no stored chain. Run `{WRITE} {kernel}`")

    def track_same_chain(self, kernel: str, device: str) -> float:
        found = deviation(kernel, device)
        return 0.0 if found <= TOLERANCE else found


def deviation(kernel: str, device: str) -> float:
    """The largest difference of the last positions from the stored ones."""
    return float(np.max(np.abs(last_positions(kernel, device) - np.asarray(json.loads(STORED.read_text())[kernel]))))


def last_positions(kernel: str, device: str) -> np.ndarray:
    """(chains, dim), in float64."""
    case = CASES[kernel]
    with wide(device), warnings.catch_warnings():
        x0 = put(device, case.start(CHAINS, DIM), "float64")
        seed, recorders = xps.Portable(1), (xps.Moments(),)
        warnings.simplefilter("ignore", ConvergenceWarning)  # of 60 steps
        trace = xps.sample(case.target(DIM), case.kernel, x0, STEPS, seed=seed, recorders=recorders, progress=False)
        return np.array(to_host(trace.state.point.x), dtype=np.float64).reshape(-1, DIM)


def write(names: list[str]) -> None:
    """Store the chains of some kernels, or of those that have none, and forget kernels that are gone."""
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    for name in names or [name for name in CASES if name not in stored]:
        stored[name] = last_positions(name, "numpy").tolist()
        print(f"stored the chain of {name}")
    lines = [f"{json.dumps(name)}: {json.dumps(stored[name])}" for name in CASES]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m asv_benchmarks.benchmarks.same_chain")
    parser.add_argument("--write", nargs="*", choices=list(CASES), metavar="KERNEL", required=True)
    write(parser.parse_args().write)
