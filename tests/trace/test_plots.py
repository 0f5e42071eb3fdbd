"""Plots of a trace show what is in it."""

import warnings

import numpy as np
import pytest

import xpsample as xps
from tests.trace.test_trace import make_trace
from xpsample.core.errors import TraceError
from xpsample.trace.plots import _bins

pytest.importorskip("matplotlib").use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.get_visible()]


def test_marginals_and_paths_of_every_coordinate():
    trace = make_trace(dim=3)
    figure = trace.plot()
    assert titles(figure) == ["x[0]", "x[0]", "x[1]", "x[1]", "x[2]", "x[2]"]
    assert len(figure.axes[1].lines) == 6  # a line for each chain
    assert np.allclose(figure.axes[1].lines[4].get_ydata(), trace.draws[:, 1, 1, 0])
    areas = [np.sum(patch.get_data().values * np.diff(patch.get_data().edges)) for patch in figure.axes[0].patches]
    assert np.allclose(areas, 1)


def test_bars_of_whole_numbers_stand_around_them():
    np.testing.assert_array_equal(_bins(np.array([0.0, 2.0, 1.0, np.nan])), [-0.5, 0.5, 1.5, 2.5])
    np.testing.assert_array_equal(_bins(np.array([0.0, 2.0, 1.5])), np.linspace(0, 2, 41))


def test_few_of_many_chains_are_drawn_and_the_plot_says_so():
    figure = make_trace(chains=(100,)).plot()
    assert len(figure.axes[1].lines) == 8
    assert figure.axes[-1].get_xlabel() == "draw (8 of 100 chains)"


def test_divergences_are_marked():
    trace = make_trace(chains=(2,))
    diverged = np.zeros((200, 2), dtype=bool)
    diverged[17, 1] = True
    trace.statistics["diverged"] = diverged
    assert list(trace.plot().axes[1].lines[-1].get_xdata()) == [17]
    dots = trace.plot("pair").axes[2].lines[-1]
    assert np.allclose(dots.get_xydata(), trace.draws[17, 1])


def test_ranks_are_even_where_chains_agree():
    draws = np.stack([np.linspace(0, 1, 200), np.linspace(0, 1, 200) + 1e-4], axis=1)[..., None]
    even = make_trace(draws=draws, statistics={}).plot("rank").axes[0].patches[0].get_data().values
    assert np.all(np.abs(even - 1) < 0.11)  # of 10 ranks a bar
    apart = make_trace(draws=draws + np.array([[[0.0], [5.0]]]), statistics={}).plot("rank")
    apart = apart.axes[0].patches[0].get_data().values
    assert np.all(apart[:10] > 1.8)
    assert np.all(apart[10:] < 0.2)


def test_names_of_a_models_parameters():
    model = xps.Model(lambda p: -0.5 * np.sum(p.b**2, axis=-1) - p.s, s=xps.Positive(), b=xps.Real(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = xps.sample(model, xps.RWM(0.5), model.start(like=np.zeros(0), chains=2, seed=0), 50, seed=1)
    assert titles(trace.plot("rank", ["b"])) == ["b[0]", "b[1]"]
    assert titles(trace.plot("rank", "s")) == ["s"]
    values = trace.plot(names=["s"]).axes[1].lines[0].get_ydata()
    assert np.allclose(values, trace["s"][:, 0])  # the parameter, not its coordinate
    with pytest.raises(TraceError, match=r"no column 'c' to plot; there are s, b\[0\], b\[1\]"):
        trace.plot(names=["c"])


def test_the_warm_up():
    target = xps.Target(lambda x: -0.5 * np.sum(x**2, axis=-1), score=lambda x: -x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = xps.sample(target, xps.MALA(), np.zeros((3, 4, 2)), 20, seed=1)  # three groups
    figure = trace.plot("warmup")
    assert titles(figure) == ["MALA.preconditioner", "MALA.step_size", "acceptance probability"]
    assert np.allclose(figure.axes[1].lines[2].get_ydata(), trace.warmup["MALA.step_size"][:, 2, 0])


def test_what_there_is_no_plot_of():
    with pytest.raises(TraceError, match="nothing was tuned"):
        make_trace().plot("warmup")
    with pytest.raises(TraceError, match="kind must be one of trace_dist, rank, pair, warmup; got 'trace'"):
        make_trace().plot("trace")
    with pytest.raises(TraceError, match="holds no draws"):
        make_trace(draws=None).plot()


def test_a_plot_says_how_many_coordinates_it_leaves_out():
    few = make_trace(dim=8).plot()
    assert few.get_suptitle() == ""
    many = make_trace(dim=11)
    assert many.plot("pair").get_suptitle().startswith("the first 5 of 11 coordinates")
    assert many.plot(names=["x[9]"]).get_suptitle() == ""
