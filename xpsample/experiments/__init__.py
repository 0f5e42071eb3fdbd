"""Experiments that `xpsample run NAME` runs, each a module of its own, loaded when it is run."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """An entry of the registry: a module with the value ``EXPERIMENT``, and a line about it."""

    module: str
    summary: str

    def load(self) -> Any:
        """Import the module, for its `xpsample.experiments.runner.Experiment`."""
        return import_module(self.module).EXPERIMENT


EXPERIMENTS: Mapping[str, Entry] = {
    "breast-cancer": Entry(
        "xpsample.experiments.breast_cancer.breast_cancer",
        "Bayesian logistic regression on real data: MALA, SR-MALA, HMC and SR-HMC on every installed backend",
    ),
    "hiss-bernoulli": Entry(
        "xpsample.experiments.hiss.bernoulli",
        "HiSS paper, Section 6.1: three isolated modes among 16 states, for eleven samplers and independent draws",
    ),
    "hiss-bnn": Entry(
        "xpsample.experiments.hiss.bnn",
        "HiSS paper, Table 2: binary neural networks on up to four data sets, all networks in one batched run",
    ),
    "hiss-ising": Entry(
        "xpsample.experiments.hiss.ising",
        "HiSS paper, Section 6.2: nine spins in 32 prominent states, sweeps against refinements, a critical lattice",
    ),
    "hiss-tsp": Entry(
        "xpsample.experiments.hiss.tsp",
        "HiSS paper, Table 1: tours of 14 cities by discrete samplers of one-hot matrices, and by 2-opt",
    ),
    "score-mh-digits": Entry(
        "xpsample.experiments.score_mh.digits",
        "Score-MH paper, Figs. 6, 9 and 16: digits by annealed ULA and annealed Score-MALA, over step sizes",
    ),
    "score-mh-gev": Entry(
        "xpsample.experiments.score_mh.gev",
        "Score-MH paper, Appendix B: ULA, MALA and Score-MALA on extreme value distributions of growing tails",
    ),
    "score-mh-toys": Entry(
        "xpsample.experiments.score_mh.toys",
        "Score-MH paper, Table 1: four planar data sets by learned scores and acceptances, and by line integrals",
    ),
    "score-mh-weights": Entry(
        "xpsample.experiments.score_mh.weights",
        "Score-MH paper, Fig. 1: the weights of two distant modes by ULA, random walks and MALA, from four starts",
    ),
    "sosmc-deblur": Entry(
        "xpsample.experiments.sosmc.deblur",
        "SOSMC paper, Section 5.4: images and the strength of their prior, by SOSMC-MYULA and MYPGD with both steps",
    ),
    "sosmc-ebm2d": Entry(
        "xpsample.experiments.sosmc.ebm2d",
        "SOSMC paper, Section 5.2: energy models of moons, circles and blobs tuned to a half-plane, beside the optimum",
    ),
    "sosmc-langevin": Entry(
        "xpsample.experiments.sosmc.langevin",
        "SOSMC paper, Section 5.1, Tables 1 and 2: weights of mixtures tuned to rewards, six methods, ten runs at once",
    ),
    "sosmc-mnist": Entry(
        "xpsample.experiments.sosmc.mnist",
        "SOSMC paper, Section 5.3: a pretrained energy model of MNIST tuned to bright, dark and lower images",
    ),
    "srld-banana": Entry(
        "xpsample.experiments.srld.banana",
        "SRLD paper, Section 6.1: Langevin dynamics and SRLD on a correlated density, with the same noise",
    ),
    "srld-bandits": Entry(
        "xpsample.experiments.srld.bandits",
        "SRLD paper, Section 6.3: two contextual bandits, by networks that LD, SRLD and SVGD sample, and controls",
    ),
    "srld-bnn": Entry(
        "xpsample.experiments.srld.bnn",
        "SRLD paper, Table 1: Bayesian neural networks on UCI sets by LD, SRLD and SVGD, all splits in one batched run",
    ),
    "srld-mixtures": Entry(
        "xpsample.experiments.srld.mixtures",
        "SRLD paper, Appendix B: two mixtures and a Gaussian in 100 dimensions, against the repulsion strength",
    ),
    "srmc-digits": Entry(
        "xpsample.experiments.srmc.digits",
        "SRMC paper, Appendix D.3: GWG and SR-GWG on a machine of binarised digits, from one image and annealed",
    ),
    "srmc-ebm": Entry(
        "xpsample.experiments.srmc.ebm",
        "SRMC paper, App. D.2.2-3: digits that an energy model's sampler visits, with and without repellence",
    ),
    "srmc-modes": Entry(
        "xpsample.experiments.srmc.modes",
        "SRMC paper, App. D.2.1: a mixture on 1,000 images, what its modes are, and how many ULA and SR-ULA visit",
    ),
    "srmc-mse": Entry(
        "xpsample.experiments.srmc.mse",
        "SRMC paper, Fig. 2: error of running means for six repellence strengths in one batched run",
    ),
    "srmc-strength": Entry(
        "xpsample.experiments.srmc.strength",
        "SRMC paper, Fig. 6 and beyond: error for alpha from 0.1 to 100, fixed, warmed up, guarded and capped",
    ),
    "srmc-sweeps": Entry(
        "xpsample.experiments.srmc.sweeps",
        "SRMC paper, Figs. 4 and 5: the history's decay rho, and the tilt by finite differences against the exact one",
    ),
    "srmc-wells": Entry(
        "xpsample.experiments.srmc.wells",
        "Fig. 1 of the SRMC paper over many chains: how ULA and SR-ULA leave the narrow well of a mixture",
    ),
}
