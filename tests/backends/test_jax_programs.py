"""The cache of compiled programs: bounded in bytes, safe under threads, and never one program for two."""

import threading

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from xpsample_jax import programs  # noqa: E402
from xpsample_jax.programs import Compiled, Executables  # noqa: E402

pytestmark = pytest.mark.first_tier


def test_the_least_used_go_first_and_the_bytes_are_bounded():
    kept = Executables(100)
    for key in "abc":
        kept.get(key, 40, lambda key=key: key * 2)
        assert kept.get("a", 40, lambda: "made anew") == "aa"
        assert kept.bytes <= 100
    assert kept.get("b", 40, lambda: "made anew") == "made anew"
    assert kept.get("large", 101, lambda: "one") == "one" and kept.bytes <= 100


def test_threads_get_the_program_of_their_key():
    kept, wrong = Executables(20 * 7), []

    def ask(seed):
        for key in np.random.default_rng(seed).integers(0, 20, 2000):
            if kept.get(int(key), 7 if key % 2 else 20, lambda key=key: int(key)) != key:
                wrong.append(key)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and kept.bytes == sum(size for _, size in kept._kept.values()) <= kept.most


def test_which_argument_is_used_and_in_which_order_results_come_are_of_a_program(monkeypatch):
    monkeypatch.setattr(programs, "EXECUTABLES", Executables(programs.MOST))
    a, b = jax.numpy.ones(3), 2 * jax.numpy.ones(3)
    functions = [lambda a, b: a * 2, lambda a, b: b * 2, lambda a, b: (a, b), lambda a, b: (b, a), lambda a, b: [a, b]]
    for f in functions:
        found, expected = Compiled(f)(a, b), f(a, b)
        assert type(found) is type(expected) or isinstance(found, jax.Array)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert len(programs.EXECUTABLES) == len(functions)
    np.testing.assert_array_equal(Compiled(lambda a, b: a * 2)(b, a), b * 2)
    assert len(programs.EXECUTABLES) == len(functions)  # an equal function takes the first one's program
