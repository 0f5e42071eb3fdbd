"""Noise that bridges modes: Figs. 3, 9 and 10 of the HiSS paper, from densities alone."""

import math
from typing import Any

import numpy as np

from xpsample.experiments.figures import tidy
from xpsample.experiments.hiss.joint_bernoulli import isolated_modes, joint_bernoulli
from xpsample.experiments.runner import Run
from xpsample.experiments.table import Row
from xpsample.hiss.smoothed import Gaussian, Logistic, Smoothing, smoothed_log_density
from xpsample.metrics.discrete import exact_probabilities

STRIP = 0.1
"""epsilon of Fig. 10, in standard deviations of the noise."""
SCALES = (0.1, 0.25, 0.5, 1.0, 2.0)
SIGNALS = (0.99, 0.95, 0.8, 0.5, 0.0)
"""alpha of the Gaussian kernel with the variance-preserving schedule, whose sigma is sqrt(1 - alpha^2)."""
DEVIATION = math.pi / math.sqrt(3.0)
"""Standard deviation of the logistic density."""


def tempered(exact: np.ndarray, beta: float) -> np.ndarray:
    """Probabilities of the states at the inverse temperature beta."""
    power = exact**beta
    return power / np.sum(power)


def between(smoothing: Smoothing, scale: float, probability: float, x: np.ndarray, signal: float = 1.0) -> np.ndarray:
    """The density of theta_a at x (places,) for a bit that is 1 with a probability, times `signal`."""
    weights = np.log([1.0 - probability, probability])
    return np.exp(smoothed_log_density(x[:, None], np.array([[0.0], [signal]]), weights, scale, smoothing))


def intermediate_mass(smoothing: Smoothing, scale: float, mu: np.ndarray) -> np.ndarray:
    """The probability of |theta_a| < `STRIP`, for equal masses at -mu and mu (places,); by Gauss-Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    z = (STRIP * nodes - mu[:, None]) / scale  # the other mass gives as much
    return STRIP * np.exp(smoothing.log_density(np, z)) @ weights / scale


def plot_bridging(figure: Any, run: Run[Any], rows: list[Row]) -> None:
    """States and their tempered masses, theta_a along a diagonal, a bit under both kernels, and the mass between."""
    figure.set_size_inches(13.5, 7.0)
    above, below = ("states", "diagonal", "mass"), ("bit", "signal")
    panels = figure.subplot_mosaic([[n for n in above for _ in range(2)], [n for n in below for _ in range(3)]])
    states, diagonal, mass, bit, signal = (panels[name] for name in above + below)

    exact, number = exact_probabilities(joint_bernoulli(isolated_modes()), 4), np.arange(16)
    for beta, label in ((1.0, "target"), (0.1, "temperature 10"), (0.01, "temperature 100")):
        states.plot(number, tempered(exact, beta), "o-", ms=4, lw=0.6, label=label)
    names = [f"{n:04b}" for n in number]
    states.set(yscale="log", title="Fig. 3: 16 states, and tempered")
    states.set_xticks(number, names, rotation=90)

    line, corners = np.linspace(-1.5, 2.5, 401), np.array([[int(c) for c in name] for name in names], dtype=float)
    for eta in SCALES:
        at = smoothed_log_density(line[:, None] * np.ones(4), corners, np.log(exact), eta)
        diagonal.plot(line, np.exp(at), label=f"eta = {eta:g}")
    diagonal.set(yscale="log", ylim=(1e-8, None), xlabel="t", title="Fig. 3: theta_a from 0000 (t = 0) to 1111 (t = 1)")

    mu = np.linspace(0.0, 6.0, 301)
    for smoothing, scale, label in ((Logistic(), 1.0 / DEVIATION, "logistic"), (Gaussian(), 1.0, "Gaussian")):
        mass.plot(mu, intermediate_mass(smoothing, scale, mu), label=label)
    mass.set(yscale="log", xlabel="mu, in standard deviations of the noise")
    mass.set_title(f"Fig. 10: mass within {STRIP:g} of the middle")

    x = np.linspace(-3.0, 4.0, 701)
    for eta in SCALES:
        bit.plot(x, between(Logistic(), eta, 0.7, x), label=f"eta = {eta:g}")
    for alpha in SIGNALS:
        sigma = math.sqrt(1.0 - alpha**2)
        signal.plot(x, between(Gaussian(), sigma, 0.7, x, alpha), label=f"alpha = {alpha:g}, sigma = {sigma:.2f}")
    bit.set(xlabel="theta_a", title="Fig. 9: Bernoulli(0.7), logistic")
    signal.set(xlabel="theta_a", title="Fig. 9: Bernoulli(0.7), Gaussian")
    for axes in panels.values():
        axes.legend(frameon=False, fontsize=8)
    tidy(*panels.values())
