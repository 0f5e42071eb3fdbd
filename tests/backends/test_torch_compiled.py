"""Steps compiled by torch: the same chain, once per shape, and eager where there is no compiler."""

import warnings

import numpy as np
import pytest

import xpsample as xps
from xpsample.core import tree

torch = pytest.importorskip("torch")

from xpsample_torch import compiled  # noqa: E402


def target():
    return xps.Target(lambda x: -0.5 * (x * x).sum(-1), score=lambda x: -x)


def run(target, kernel, setting, monkeypatch, draws=27, **settings):
    monkeypatch.setenv(compiled.SETTING, setting)
    settings = {"burn_in": 5, "thinning": 2} | settings
    return xps.sample(target, kernel, torch.ones((3, 2), dtype=torch.float64), draws, seed=1, **settings)


def assert_same(ours, theirs):
    parts = [(t.draws, t.statistics, t.recorded, t.state, vars(t.run_statistics)) for t in (ours, theirs)]
    for (path, a), (_, b) in zip(*map(tree.items, parts), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=path)


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


KERNELS = {
    "mala": lambda: xps.MALA(0.3),
    "sr-hmc": lambda: xps.SRMC(xps.HMC(0.3, 3), alpha=0.5, schedule=xps.PowerLaw(0.7)),
    "tempering": lambda: xps.ParallelTempering(xps.MALA(0.3), (1.0, 0.5)),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("settings", [{"thinning": 1}, {"thinning": 1, "burn_in": 16}, {"thinning": 3}, {"burn_in": 0}])
def test_what_is_recorded_is_the_same(compilations, monkeypatch, kernel, settings):
    """Draws, statistics, folds and a function of the state, with whole chunks, what is left over, and a burn-in."""
    recorders = (xps.Draws(), xps.Statistics(), xps.Moments(), xps.Record("first", lambda s: {"x": s.point.x[..., 0]}))
    settings = {"draws": 41, "recorders": recorders} | settings
    kernel, gaussian = KERNELS[kernel](), xps.Target(lambda x: -0.5 * (x * x).sum(-1), lambda x: -x, lambda x, v: -v)
    eager = run(gaussian, kernel, "0", monkeypatch, **settings)
    assert_same(run(gaussian, kernel, "1", monkeypatch, **settings), eager)
    assert compilations


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


def test_what_is_recorded_at_every_step_is_compiled_with_it(traced, monkeypatch):
    """One program for a burn-in and one that records; moments made in a program have no eager division left."""
    recorders = (xps.Moments(), xps.Record("first", lambda s: s.point.x[..., 0]))
    gaussian, kernel = target(), xps.MALA(0.3)
    settings = {"thinning": 1, "recorders": recorders, "draws": 12}
    eager = run(gaussian, kernel, "0", monkeypatch, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = run(gaussian, kernel, "1", monkeypatch, **settings)
    assert len(traced) == 2
    divisions = [sum("truediv" in str(node.target) for node in graph.graph.nodes) for graph in traced]
    assert divisions == [0, 2]
    for path, a in tree.items(eager.recorded):
        np.testing.assert_allclose(dict(tree.items(whole.recorded))[path], a, rtol=1e-12, err_msg=path)


def test_what_is_recorded_by_code_that_cannot_be_compiled_runs_eagerly(traced, monkeypatch):
    recorders = (xps.Draws(), xps.Record("first", lambda s: torch.asarray([float(s.point.x[0, 0])])))
    gaussian, kernel = target(), xps.MALA(0.3)
    settings = {"thinning": 1, "recorders": recorders, "draws": 40, "burn_in": 0}
    eager = run(gaussian, kernel, "0", monkeypatch, **settings)
    with pytest.warns(RuntimeWarning, match="torch.compile failed, what is recorded runs eagerly: ") as caught:
        run(gaussian, kernel, "1", monkeypatch, **settings)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = run(gaussian, kernel, "1", monkeypatch, **settings)
    assert len(traced) == 1  # the steps
    np.testing.assert_allclose(whole.draws, eager.draws, rtol=1e-12)
    np.testing.assert_allclose(whole.recorded["first"], eager.recorded["first"], rtol=1e-12)


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
        if len(calls) > 40:
            raise ValueError("from the density")
        return -0.5 * (x * x).sum(-1)

    with pytest.raises(ValueError, match="from the density"):
        run(xps.Target(density, score=lambda x: -x), xps.MALA(0.3), "1", monkeypatch)
