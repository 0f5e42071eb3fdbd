"""From the files of public repositories to the arrays of `xpsample.zoo.data`: one converter for each format.

A converter takes ``fetch``, which gives the bytes of a path in the data set's repository at its commit, and returns the
arrays that its `Dataset` lists. Converters check nothing; `load_dataset` compares the digest.
"""

import io
import re
from collections.abc import Callable, Mapping

import numpy as np

Arrays = dict[str, np.ndarray]
Fetch = Callable[[str], bytes]
Converters = Mapping[str, Callable[[Fetch], Arrays]]


def read_table(content: bytes, delimiter: str | None = None) -> np.ndarray:
    """The numbers of a text table, (rows, columns)."""
    return np.loadtxt(io.BytesIO(content), delimiter=delimiter, ndmin=2)


def _python_arrays(content: bytes) -> Arrays:
    """The arrays of a Python file that has ``NAME = np.array([number, ...])`` and nothing else of use, in float64."""
    found = re.findall(r"^(\w+) = np\.array\(\[([^\]]*)\]\)", content.decode(), re.MULTILINE)
    numbers = {name: re.findall(r"[^\s,]+", listed) for name, listed in found}
    return {
        name: np.array([float(number.removeprefix("np.")) for number in listed]) for name, listed in numbers.items()
    }


_GYM = "spinoffs/inference_gym/inference_gym"


def _brownian_motion(fetch: Fetch) -> Arrays:
    found = _python_arrays(fetch(f"{_GYM}/internal/datasets/brownian_motion_missing_middle_observations.py"))
    return {"observed": found["OBSERVED_LOC"]}


def _item_response(fetch: Fetch) -> Arrays:
    answers = _python_arrays(fetch(f"{_GYM}/internal/datasets/synthetic_item_response_theory.py"))
    known = _python_arrays(fetch(f"{_GYM}/targets/ground_truth/synthetic_item_response_theory.py"))
    arrays: Arrays = {
        "student": answers["STUDENT_IDS"].astype(np.int16),
        "question": answers["QUESTION_IDS"].astype(np.int16),
        "correct": answers["CORRECT"].astype(np.int8),
    }
    for name in ("mean_student_ability", "centered_student_ability", "question_difficulty"):
        for short, long in (("mean", "MEAN"), ("sd", "STANDARD_DEVIATION")):
            arrays[f"{name}_{short}"] = known[f"IDENTITY_{name.upper()}_{long}"]
    return arrays


def _german_credit(fetch: Fetch) -> Arrays:
    table = read_table(fetch("german.data-numeric").replace(b",", b" "))
    return {"features": table[:, :-1], "bad": (table[:, -1] == 2).astype(np.int8)}


def _stochastic_volatility(fetch: Fetch) -> Arrays:
    folder = "sampler-evaluation/sampler_evaluation/models/data"
    returns, moments = (
        np.load(io.BytesIO(fetch(f"{folder}/{name}.npy")), allow_pickle=False)
        for name in ("SP500", "stoch_vol_moments")
    )
    return {"returns": returns, "square_mean": moments[0], "square_variance": moments[1]}


CONVERTERS: Converters = {
    "targets/brownian_motion": _brownian_motion,
    "targets/german_credit": _german_credit,
    "targets/item_response": _item_response,
    "targets/stochastic_volatility": _stochastic_volatility,
}
