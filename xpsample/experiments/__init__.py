"""Experiments that `xpsample run NAME` runs, each a module of its own, loaded when it is run."""

from collections.abc import Mapping
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
    "SOSMC": "SOSMC: stochastic optimisation via sequential Monte Carlo",
    "SRLD": "SRLD: Stein self-repulsive dynamics",
    "SRMC": "SRMC: score-repellent Monte Carlo",
}
"""Names of papers, with what they are about."""

EXPERIMENTS: Mapping[str, Entry] = {
    "breast-cancer": Entry(
        "xpsample.experiments.breast_cancer.breast_cancer",
        "Bayesian logistic regression on real data: MALA, SR-MALA, HMC and SR-HMC on every installed backend",
        quick=20,
    ),
    "hiss-bernoulli": Entry(
        "xpsample.experiments.hiss.bernoulli",
        "Section 6.1: three isolated modes among 16 states, for eleven samplers and independent draws",
        "HiSS",
        3,
    ),
    "hiss-bnn": Entry(
        "xpsample.experiments.hiss.bnn",
        "Table 2: binary neural networks on up to four data sets, all networks in one batched run",
        "HiSS",
        55,
    ),
    "hiss-ising": Entry(
        "xpsample.experiments.hiss.ising",
        "Section 6.2: nine spins in 32 prominent states, sweeps against refinements, a critical lattice",
        "HiSS",
        3,
    ),
    "hiss-tsp": Entry(
        "xpsample.experiments.hiss.tsp",
        "Table 1: tours of 14 cities by discrete samplers of one-hot matrices, and by 2-opt",
        "HiSS",
        3,
    ),
    "samplers": Entry(
        "xpsample.experiments.samplers.samplers",
        "Gradients until second moments are right, and whether runs are right, with nothing tuned by hand",
        quick=5,
    ),
    "score-mh-digits": Entry(
        "xpsample.experiments.score_mh.digits",
        "Figs. 6, 9 and 16: digits by annealed ULA and annealed Score-MALA, over step sizes",
        "Score-MH",
        20,
    ),
    "score-mh-diffusion": Entry(
        "xpsample.experiments.score_mh.diffusion",
        "Section 5 with a diffusion model: digits by a U-Net that predicts noise, annealed by ULA and MALA",
        "Score-MH",
        20,
    ),
    "score-mh-gev": Entry(
        "xpsample.experiments.score_mh.gev",
        "Appendix B: ULA, MALA and Score-MALA on extreme value distributions of growing tails",
        "Score-MH",
        13,
    ),
    "score-mh-toys": Entry(
        "xpsample.experiments.score_mh.toys",
        "Table 1: four planar data sets by learned scores and acceptances, and by line integrals",
        "Score-MH",
        40,
    ),
    "score-mh-weights": Entry(
        "xpsample.experiments.score_mh.weights",
        "Fig. 1: the weights of two distant modes by ULA, random walks and MALA, from four starts",
        "Score-MH",
        5,
    ),
    "sosmc-deblur": Entry(
        "xpsample.experiments.sosmc.deblur",
        "Section 5.4: images and the strength of their prior, by SOSMC-MYULA and MYPGD with both steps",
        "SOSMC",
        10,
    ),
    "sosmc-ebm2d": Entry(
        "xpsample.experiments.sosmc.ebm2d",
        "Section 5.2: energy models of moons, circles and blobs tuned to a half-plane, beside the optimum",
        "SOSMC",
        8,
    ),
    "sosmc-langevin": Entry(
        "xpsample.experiments.sosmc.langevin",
        "Section 5.1, Tables 1 and 2: weights of mixtures tuned to rewards, six methods, ten runs at once",
        "SOSMC",
        15,
    ),
    "sosmc-mnist": Entry(
        "xpsample.experiments.sosmc.mnist",
        "Section 5.3: a pretrained energy model of MNIST tuned to bright, dark and lower images",
        "SOSMC",
        13,
    ),
    "srld-banana": Entry(
        "xpsample.experiments.srld.banana",
        "Section 6.1: Langevin dynamics and SRLD on a correlated density, with the same noise",
        "SRLD",
        6,
    ),
    "srld-bandits": Entry(
        "xpsample.experiments.srld.bandits",
        "Section 6.3: two contextual bandits, by networks that LD, SRLD and SVGD sample, and controls",
        "SRLD",
        3,
    ),
    "srld-bnn": Entry(
        "xpsample.experiments.srld.bnn",
        "Table 1: Bayesian neural networks on UCI sets by LD, SRLD and SVGD, all splits in one batched run",
        "SRLD",
        5,
    ),
    "srld-mixtures": Entry(
        "xpsample.experiments.srld.mixtures",
        "Appendix B: two mixtures and a Gaussian in 100 dimensions, against the repulsion strength",
        "SRLD",
        25,
    ),
    "srmc-digits": Entry(
        "xpsample.experiments.srmc.digits",
        "Appendix D.3: GWG and SR-GWG on a machine of binarised digits, from one image and annealed",
        "SRMC",
        8,
    ),
    "srmc-ebm": Entry(
        "xpsample.experiments.srmc.ebm",
        "App. D.2.2-3: digits that an energy model's sampler visits, with and without repellence",
        "SRMC",
        11,
    ),
    "srmc-modes": Entry(
        "xpsample.experiments.srmc.modes",
        "App. D.2.1: a mixture on 1,000 images, what its modes are, and how many ULA and SR-ULA visit",
        "SRMC",
        3,
    ),
    "srmc-mse": Entry(
        "xpsample.experiments.srmc.mse",
        "Fig. 2: error of running means for six repellence strengths in one batched run",
        "SRMC",
        5,
    ),
    "srmc-strength": Entry(
        "xpsample.experiments.srmc.strength",
        "Fig. 6 and beyond: error for alpha from 0.1 to 100, fixed, warmed up, guarded and capped",
        "SRMC",
        5,
    ),
    "srmc-sweeps": Entry(
        "xpsample.experiments.srmc.sweeps",
        "Figs. 4 and 5: the history's decay rho, and the tilt by finite differences against the exact one",
        "SRMC",
        6,
    ),
    "srmc-tilts": Entry(
        "xpsample.experiments.srmc.tilts",
        "Fig. 5 over data sets: which tilt lowers the error, and which share of chains each one breaks",
        "SRMC",
        10,
    ),
    "srmc-wells": Entry(
        "xpsample.experiments.srmc.wells",
        "Fig. 1 over many chains: how ULA and SR-ULA leave the narrow well of a mixture",
        "SRMC",
        3,
    ),
}
