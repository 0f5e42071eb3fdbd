"""Experiments that `xpsample run NAME` runs, one module each, loaded when it is run."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An entry of the registry: a module with the value ``EXPERIMENT``, a line about it, and whose paper's it is.

    `quick` is what ``--quick`` takes: seconds on one core with the libraries that it runs on, started from nothing.
    """

    module: str
    summary: str
    paper: str = ""
    quick: int | None = None

    def load(self) -> Any:
        """Import the module, for its `xpsample.experiments.runner.Experiment`."""
        return import_module(self.module).EXPERIMENT


PAPERS = {
    "": "without a paper",
    "HiSS": "HiSS: hyperbolic secant-squared Gibbs sampling",
    "Score-MH": "Score-MH: score-based Metropolis-Hastings",
    "SOSMC": "SOSMC: stochastic optimization via sequential Monte Carlo",
    "SRLD": "SRLD: Stein self-repulsive dynamics",
    "SRMC": "SRMC: score-repellent Monte Carlo",
}
"""Names of papers, with what they are about."""

_OF_PAPERS: Mapping[str, Mapping[str, tuple[str, int]]] = {
    "HiSS": {
        "bernoulli": (
            "Section 6.1: three isolated modes among 16 states, for eleven samplers and independent draws",
            3,
        ),
        "bnn": ("Table 2: binary neural networks on up to four data sets, all networks in one batched run", 55),
        "ising": ("Section 6.2: nine spins in 32 prominent states, sweeps against refinements, a critical lattice", 3),
        "tsp": ("Table 1: tours of 14 cities by discrete samplers of one-hot matrices, and by 2-opt", 3),
    },
    "Score-MH": {
        "digits": ("Figs. 6, 9 and 16: digits by annealed ULA and annealed Score-MALA, over step sizes", 15),
        "diffusion": (
            "Section 5 with a diffusion model: digits by a U-Net that predicts noise, annealed by ULA and MALA",
            10,
        ),
        "gaussian": (
            "Fig. 14: N(3, 2) by a random walk whose acceptance learned on the true or on a learned score",
            7,
        ),
        "gev": ("Appendix B: ULA, MALA and Score-MALA on extreme value distributions of growing tails", 10),
        "toys": ("Table 1: four planar data sets by learned scores and acceptances, and by line integrals", 12),
        "weights": ("Fig. 1: the weights of two distant modes by ULA, random walks and MALA, from four starts", 5),
    },
    "SOSMC": {
        "deblur": ("Section 5.4: images and the strength of their prior, by SOSMC-MYULA and MYPGD with both steps", 6),
        "ebm2d": (
            "Section 5.2: energy models of moons, circles and blobs tuned to a half-plane, next to the optimum",
            12,
        ),
        "langevin": (
            "Section 5.1, Tables 1 and 2: weights of mixtures tuned to rewards, six methods, ten runs at once",
            15,
        ),
        "mnist": ("Section 5.3: a pretrained energy model of MNIST tuned to bright, dark and lower images", 13),
    },
    "SRLD": {
        "banana": ("Section 6.1: Langevin dynamics and SRLD on a correlated density, with the same noise", 6),
        "bandits": ("Section 6.3: two contextual bandits, by networks that LD, SRLD and SVGD sample, and controls", 3),
        "bnn": ("Table 1: Bayesian neural networks on UCI sets by LD, SRLD and SVGD, all splits in one batched run", 5),
        "mixtures": ("Appendix B: two mixtures and a Gaussian in 100 dimensions, against the repulsion strength", 25),
    },
    "SRMC": {
        "digits": ("Appendix D.3: GWG and SR-GWG on a machine of binarised digits, from one image and annealed", 8),
        "ebm": ("App. D.2.2-3: digits that an energy model's sampler visits, with and without repellence", 11),
        "modes": ("App. D.2.1: a mixture on 1,000 images, what its modes are, and how many ULA and SR-ULA visit", 3),
        "mse": ("Fig. 2: error of running means for six repellence strengths in one batched run", 5),
        "strength": ("Fig. 6 and beyond: error for alpha from 0.1 to 100, fixed, warmed up, guarded and capped", 5),
        "sweeps": (
            "Figs. 4 and 5: the history's decay rho, and the tilt by finite differences against the exact one",
            6,
        ),
        "tilts": ("Fig. 5 over data sets: which tilt lowers the error, and which share of chains each one breaks", 10),
        "wells": ("Fig. 1 over many chains: how ULA and SR-ULA leave the narrow well of a mixture", 3),
    },
}
"""The modules in the folder of a paper, each with a line about it, and the seconds that ``--quick`` takes."""


def _of_papers() -> Iterator[tuple[str, Entry]]:
    for paper, modules in _OF_PAPERS.items():
        name = paper.lower()
        folder = f"{__name__}.{name.replace('-', '_')}"
        for module, (summary, quick) in modules.items():
            yield f"{name}-{module}", Entry(f"{folder}.{module}", summary, paper, quick)


EXPERIMENTS: Mapping[str, Entry] = {
    "breast-cancer": Entry(
        "xpsample.experiments.breast_cancer.breast_cancer",
        "Bayesian logistic regression on real data: MALA, SR-MALA, HMC and SR-HMC on every installed backend",
        quick=20,
    ),
    **dict(_of_papers()),
    "samplers": Entry(
        "xpsample.experiments.samplers.samplers",
        "Gradients until second moments are right, and whether runs are right, with nothing tuned by hand",
        quick=5,
    ),
}
"""By name."""
