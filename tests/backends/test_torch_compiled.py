"""Steps compiled by torch: the same chain, once per shape, and eager where there is no compiler."""

import warnings

import pytest

import xpsample as xps

torch = pytest.importorskip("torch")

from xpsample_torch import compiled  # noqa: E402


def target():
    return xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x)


def run(target, kernel, setting, monkeypatch, draws=27):
    monkeypatch.setenv(compiled.SETTING, setting)
    return xps.sample(target, kernel, torch.ones((3, 2), dtype=torch.float64), draws, seed=1, burn_in=5, thinning=2)


@pytest.fixture
def compilations(monkeypatch):
    """A compiler that changes nothing and counts, since a real one takes most of a minute."""
    made = []

    def count(f, **settings):
        made.append(settings)
        return f

    monkeypatch.setattr(torch, "compile", count)
    return made


def test_chunks_and_what_is_left_over_are_the_same_chain(compilations, monkeypatch):
    kernel, gaussian = xps.MALA(0.3), target()
    eager = run(gaussian, kernel, "0", monkeypatch)
    assert not compilations
    chunked = run(gaussian, kernel, "1", monkeypatch)
    assert compilations == [{"fullgraph": True, "dynamic": False}]
    assert torch.equal(eager.draws, chunked.draws)
    for name, rows in eager.statistics.items():
        assert torch.equal(rows, chunked.statistics[name])
    run(gaussian, kernel, "1", monkeypatch, draws=40)
    assert len(compilations) == 1  # kept for later runs of the shape
    run(gaussian, xps.MALA(0.2), "1", monkeypatch)
    assert len(compilations) == 2


@pytest.fixture
def traced(monkeypatch):
    """torch's own tracing, with no code generated, of two steps a call: the graphs made, which take a second each."""
    compile_, made = torch.compile, []

    def keep(graph, inputs):
        made.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", lambda f, **settings: compile_(f, backend=keep, **settings))
    monkeypatch.setattr(compiled, "CHUNK", 2)
    return made


@pytest.mark.parametrize("kernel", [xps.HMC(0.3, 3), xps.SRMC(xps.MALA(0.3), alpha=0.5)], ids=["hmc", "sr-mala"])
def test_derivatives_by_autograd_are_compiled(traced, monkeypatch, kernel):
    banana = xps.Target(lambda x: -0.5 * (x[..., 0] ** 2 + (x[..., 1] - x[..., 0] ** 2) ** 2))
    eager = run(banana, kernel, "0", monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a step that falls back says so
        whole = run(banana, kernel, "1", monkeypatch)
    assert len(traced) == 1
    assert torch.allclose(eager.draws, whole.draws, rtol=1e-10, atol=1e-10)


def test_more_programs_than_torch_compiles_of_one_function(traced, monkeypatch):
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 2)
    gaussian = target()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step_size in (0.1, 0.2, 0.3, 0.4):
            run(gaussian, xps.ULA(step_size), "1", monkeypatch, draws=3)
    assert len(traced) == 4


def test_without_a_compiler_steps_run_eagerly_after_one_warning(monkeypatch):
    def refuse(f, **settings):
        def fail(*args):
            raise RuntimeError("InvalidCxxCompiler: no working C++ compiler\nand a long trace")

        return fail

    kernel, gaussian = xps.MALA(0.3), target()
    eager = run(gaussian, kernel, "0", monkeypatch)
    monkeypatch.setattr(torch, "compile", refuse)
    with pytest.warns(RuntimeWarning, match="no working C.. compiler$") as caught:
        fallen = run(gaussian, kernel, "1", monkeypatch)
    assert len(caught) == 1
    assert torch.equal(eager.draws, fallen.draws)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(gaussian, kernel, "1", monkeypatch)  # not tried again


def test_an_error_of_the_step_itself_is_the_users(compilations, monkeypatch):
    calls = []

    def density(x):
        calls.append(1)
        if len(calls) > 20:
            raise ValueError("from the density")
        return -0.5 * (x * x).sum(-1)

    with pytest.raises(ValueError, match="from the density"):
        run(xps.Target(density, score=lambda x: -x), xps.MALA(0.3), "1", monkeypatch)
