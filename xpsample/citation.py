"""What to cite: BibTeX for every method, by name or from the kernel that was run."""

import difflib
import re
from dataclasses import fields, is_dataclass
from typing import Any

from xpsample.core.errors import XpsampleError
from xpsample.core.version import __version__

ALIASES = {
    "independentmh": "independent",
    "underdampedlangevin": "underdamped",
    "srmala": "srmc",
    "srhmc": "srmc",
    "wdbc": "breastcancer",
    "minibatch": "sgld",
    "temperedsmc": "smc",
    "paralleltempering": "tempering",
    "blocks": "independent",  # Tierney (1994), on kernels that take turns, too
    "dula": "dlp",
    "dmala": "dlp",
    "singleflip": "rwm",
}
"""Other spellings, class names among them, of the keys of `REFERENCES`."""

REFERENCES: dict[str, tuple[str, ...]] = {
    "srmc": (
        """\
@misc{hu2026srmc,
  title  = {Score-Repellent {Monte} {Carlo}: Toward Efficient Non-{Markovian} Sampler with Constant Memory in General
            State Spaces},
  author = {Hu, Jie and Chen, Lingyun and Kim, Geeho and Choi, Jinyoung and Han, Bohyung and Eun, Do Young},
  year   = {2026},
  eprint = {2604.22948},
  archivePrefix = {arXiv},
}""",
    ),
    "srld": (
        """\
@inproceedings{ye2020srld,
  title     = {{Stein} Self-Repulsive Dynamics: Benefits from Past Samples},
  author    = {Ye, Mao and Ren, Tongzheng and Liu, Qiang},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {33},
  year      = {2020},
}""",
    ),
    "svgd": (
        """\
@inproceedings{liuwang2016svgd,
  title     = {{Stein} Variational Gradient Descent: A General Purpose {Bayesian} Inference Algorithm},
  author    = {Liu, Qiang and Wang, Dilin},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {29},
  year      = {2016},
}""",
    ),
    "stochastic-svgd": (
        """\
@misc{gallegoinsua2018,
  title  = {Stochastic Gradient {MCMC} with Repulsive Forces},
  author = {Gallego, Victor and Rios Insua, David},
  year   = {2018},
  eprint = {1812.00071},
  archivePrefix = {arXiv},
}""",
    ),
    "sgld": (
        """\
@inproceedings{wellingteh2011,
  title     = {{Bayesian} Learning via Stochastic Gradient {Langevin} Dynamics},
  author    = {Welling, Max and Teh, Yee Whye},
  booktitle = {Proceedings of the 28th International Conference on Machine Learning},
  pages     = {681--688},
  year      = {2011},
}""",
    ),
    "hiss": (
        """\
@inproceedings{mohanty2026hiss,
  title     = {Slithering Through Gaps: Capturing Discrete Isolated Modes via Logistic Bridging},
  author    = {Mohanty, Pinaki and Zhang, Ruqi},
  booktitle = {Proceedings of the 29th International Conference on Artificial Intelligence and Statistics},
  series    = {Proceedings of Machine Learning Research},
  volume    = {300},
  year      = {2026},
}""",
    ),
    "sosmc": (
        """\
@misc{cuin2026sosmc,
  title  = {Efficient Stochastic Optimisation via Sequential {Monte} {Carlo}},
  author = {Cuin, James and Carbone, Davide and Tang, Yanbo and Akyildiz, O. Deniz},
  year   = {2026},
  eprint = {2601.22003},
  archivePrefix = {arXiv},
}""",
    ),
    "smc": (
        """\
@article{delmoral2006smc,
  title   = {Sequential {Monte} {Carlo} Samplers},
  author  = {Del Moral, Pierre and Doucet, Arnaud and Jasra, Ajay},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume  = {68},
  number  = {3},
  pages   = {411--436},
  year    = {2006},
}""",
        """\
@article{leewhiteley2018,
  title   = {Variance Estimation in the Particle Filter},
  author  = {Lee, Anthony and Whiteley, Nick},
  journal = {Biometrika},
  volume  = {105},
  number  = {3},
  pages   = {609--625},
  year    = {2018},
}""",
    ),
    "score-mh": (
        """\
@misc{aloui2025scoremh,
  title  = {Score-Based {Metropolis}-{Hastings} Algorithms},
  author = {Aloui, Ahmed and Hasan, Ali and Dong, Juncheng and Wu, Zihao and Tarokh, Vahid},
  year   = {2025},
  eprint = {2501.00467},
  archivePrefix = {arXiv},
}""",
    ),
    "rwm": (
        """\
@article{metropolis1953,
  title   = {Equation of State Calculations by Fast Computing Machines},
  author  = {Metropolis, Nicholas and Rosenbluth, Arianna W. and Rosenbluth, Marshall N. and Teller, Augusta H. and
             Teller, Edward},
  journal = {The Journal of Chemical Physics},
  volume  = {21},
  number  = {6},
  pages   = {1087--1092},
  year    = {1953},
}""",
    ),
    "ula": (
        """\
@article{robertstweedie1996,
  title   = {Exponential Convergence of {Langevin} Distributions and Their Discrete Approximations},
  author  = {Roberts, Gareth O. and Tweedie, Richard L.},
  journal = {Bernoulli},
  volume  = {2},
  number  = {4},
  pages   = {341--363},
  year    = {1996},
}""",
    ),
    "myula": (
        """\
@article{durmus2018,
  title   = {Efficient {Bayesian} Computation by Proximal {Markov} Chain {Monte Carlo}: When {Langevin} Meets {Moreau}},
  author  = {Durmus, Alain and Moulines, {\\'E}ric and Pereyra, Marcelo},
  journal = {SIAM Journal on Imaging Sciences},
  volume  = {11},
  number  = {1},
  pages   = {473--506},
  year    = {2018},
}""",
    ),
    "mala": (
        """\
@article{robertsrosenthal1998,
  title   = {Optimal Scaling of Discrete Approximations to {Langevin} Diffusions},
  author  = {Roberts, Gareth O. and Rosenthal, Jeffrey S.},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume  = {60},
  number  = {1},
  pages   = {255--268},
  year    = {1998},
}""",
    ),
    "hmc": (
        """\
@article{duane1987,
  title   = {Hybrid {Monte} {Carlo}},
  author  = {Duane, Simon and Kennedy, A. D. and Pendleton, Brian J. and Roweth, Duncan},
  journal = {Physics Letters B},
  volume  = {195},
  number  = {2},
  pages   = {216--222},
  year    = {1987},
}""",
        """\
@incollection{neal2011,
  title     = {{MCMC} Using {Hamiltonian} Dynamics},
  author    = {Neal, Radford M.},
  booktitle = {Handbook of {Markov} Chain {Monte} {Carlo}},
  editor    = {Brooks, Steve and Gelman, Andrew and Jones, Galin L. and Meng, Xiao-Li},
  publisher = {Chapman and Hall/CRC},
  pages     = {113--162},
  year      = {2011},
}""",
    ),
    "nuts": (
        """\
@article{hoffmangelman2014,
  title   = {The No-{U}-Turn Sampler: Adaptively Setting Path Lengths in {Hamiltonian} {Monte} {Carlo}},
  author  = {Hoffman, Matthew D. and Gelman, Andrew},
  journal = {Journal of Machine Learning Research},
  volume  = {15},
  number  = {47},
  pages   = {1593--1623},
  year    = {2014},
}""",
        """\
@misc{betancourt2017,
  title  = {A Conceptual Introduction to {Hamiltonian} {Monte} {Carlo}},
  author = {Betancourt, Michael},
  year   = {2017},
  eprint = {1701.02434},
  archivePrefix = {arXiv},
}""",
    ),
    "mams": (
        """\
@misc{robnik2025mams,
  title  = {{Metropolis} Adjusted Microcanonical {Hamiltonian} {Monte} {Carlo}},
  author = {Robnik, Jakob and Cohn-Gordon, Reuben and Seljak, Uro{\v{s}}},
  year   = {2025},
  eprint = {2503.01707},
  archivePrefix = {arXiv},
}""",
    ),
    "mclmc": (
        """\
@article{robnik2023mclmc,
  title   = {Microcanonical {Hamiltonian} {Monte} {Carlo}},
  author  = {Robnik, Jakob and De Luca, G. Bruno and Silverstein, Eva and Seljak, Uro{\v{s}}},
  journal = {Journal of Machine Learning Research},
  volume  = {24},
  number  = {311},
  pages   = {1--34},
  year    = {2023},
}""",
        """\
@misc{robnikseljak2023mclmc,
  title  = {Fluctuation without Dissipation: Microcanonical {Langevin} {Monte} {Carlo}},
  author = {Robnik, Jakob and Seljak, Uro{\v{s}}},
  year   = {2023},
  eprint = {2303.18221},
  archivePrefix = {arXiv},
}""",
    ),
    "pcn": (
        """\
@article{cotter2013,
  title   = {{MCMC} Methods for Functions: Modifying Old Algorithms to Make Them Faster},
  author  = {Cotter, S. L. and Roberts, G. O. and Stuart, A. M. and White, D.},
  journal = {Statistical Science},
  volume  = {28},
  number  = {3},
  pages   = {424--446},
  year    = {2013},
}""",
    ),
    "underdamped": (
        """\
@article{leimkuhlermatthews2013,
  title   = {Rational Construction of Stochastic Numerical Methods for Molecular Sampling},
  author  = {Leimkuhler, Benedict and Matthews, Charles},
  journal = {Applied Mathematics Research eXpress},
  volume  = {2013},
  number  = {1},
  pages   = {34--56},
  year    = {2013},
}""",
    ),
    "independent": (
        """\
@article{tierney1994,
  title   = {{Markov} Chains for Exploring Posterior Distributions},
  author  = {Tierney, Luke},
  journal = {The Annals of Statistics},
  volume  = {22},
  number  = {4},
  pages   = {1701--1728},
  year    = {1994},
}""",
    ),
    "tempering": (
        """\
@inproceedings{geyer1991tempering,
  title     = {{Markov} Chain {Monte} {Carlo} Maximum Likelihood},
  author    = {Geyer, Charles J.},
  booktitle = {Computing Science and Statistics: Proceedings of the 23rd Symposium on the Interface},
  pages     = {156--163},
  year      = {1991},
}""",
        """\
@article{syed2022tempering,
  title   = {Non-Reversible Parallel Tempering: A Scalable Highly Parallel {MCMC} Scheme},
  author  = {Syed, Saifuddin and Bouchard-C{\\^o}t{\\'e}, Alexandre and Deligiannidis, George and Doucet, Arnaud},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume  = {84},
  number  = {2},
  pages   = {321--350},
  year    = {2022},
}""",
    ),
    "acs": (
        """\
@inproceedings{pynadath2024acs,
  title     = {Gradient-based Discrete Sampling with Automatic Cyclical Scheduling},
  author    = {Pynadath, Patrick and Bhattacharya, Riddhiman and Hariharan, Arun and Zhang, Ruqi},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024},
}""",
    ),
    "ais": (
        """\
@article{neal2001ais,
  title   = {Annealed Importance Sampling},
  author  = {Neal, Radford M.},
  journal = {Statistics and Computing},
  volume  = {11},
  number  = {2},
  pages   = {125--139},
  year    = {2001},
}""",
    ),
    "annealed": (
        """\
@inproceedings{song2019gradients,
  title     = {Generative Modeling by Estimating Gradients of the Data Distribution},
  author    = {Song, Yang and Ermon, Stefano},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019},
}""",
    ),
    "dlp": (
        """\
@inproceedings{zhang2022dlp,
  title     = {A {Langevin}-like Sampler for Discrete Distributions},
  author    = {Zhang, Ruqi and Liu, Xingchao and Liu, Qiang},
  booktitle = {Proceedings of the 39th International Conference on Machine Learning},
  year      = {2022},
}""",
    ),
    "gibbs": (
        """\
@article{geman1984,
  title   = {Stochastic Relaxation, {Gibbs} Distributions, and the {Bayesian} Restoration of Images},
  author  = {Geman, Stuart and Geman, Donald},
  journal = {{IEEE} Transactions on Pattern Analysis and Machine Intelligence},
  volume  = {6},
  number  = {6},
  pages   = {721--741},
  year    = {1984},
}""",
    ),
    "gwg": (
        """\
@inproceedings{grathwohl2021gwg,
  title     = {Oops {I} Took a Gradient: Scalable Sampling for Discrete Distributions},
  author    = {Grathwohl, Will and Swersky, Kevin and Hashemi, Milad and Duvenaud, David and Maddison, Chris J.},
  booktitle = {Proceedings of the 38th International Conference on Machine Learning},
  year      = {2021},
}""",
    ),
    "locally-balanced": (
        """\
@article{zanella2020,
  title   = {Informed Proposals for Local {MCMC} in Discrete Spaces},
  author  = {Zanella, Giacomo},
  journal = {Journal of the American Statistical Association},
  volume  = {115},
  number  = {530},
  pages   = {852--865},
  year    = {2020},
}""",
    ),
    "pcd": (
        """\
@inproceedings{tieleman2008pcd,
  title     = {Training Restricted {Boltzmann} Machines Using Approximations to the Likelihood Gradient},
  author    = {Tieleman, Tijmen},
  booktitle = {Proceedings of the 25th International Conference on Machine Learning},
  pages     = {1064--1071},
  year      = {2008},
}""",
    ),
    "two-opt": (
        """\
@article{croes1958,
  title   = {A Method for Solving Traveling-Salesman Problems},
  author  = {Croes, G. A.},
  journal = {Operations Research},
  volume  = {6},
  number  = {6},
  pages   = {791--812},
  year    = {1958},
}""",
    ),
    "breast-cancer": (
        """\
@misc{wolberg1993wdbc,
  title     = {Breast Cancer {Wisconsin} (Diagnostic)},
  author    = {Wolberg, William H. and Street, W. Nick and Mangasarian, Olvi L.},
  year      = {1993},
  publisher = {UCI Machine Learning Repository},
  doi       = {10.24432/C5DW2B},
}""",
    ),
    "xpsample": (
        f"""\
@software{{xpsample,
  title   = {{xpsample: {{MCMC}} samplers for every array library}},
  author  = {{{{The xpsample developers}}}},
  version = {{{__version__}}},
}}""",
    ),
}


def citation(*what: Any) -> str:
    """BibTeX entries of methods.

    Parameters
    ----------
    *what : str or kernel
        Names (``"srmc"``, ``"SRMC(HMC)"``; case and hyphens do not matter), or kernels, whose parts are cited with
        them: ``citation(SRMC(HMC(...), alpha=1.0))`` gives SRMC and HMC. Nothing gives xpsample itself.

    Returns
    -------
    str
        Every entry once, in the order asked for.

    Raises
    ------
    XpsampleError
        For a name that is not known; the message has the nearest ones.
    """
    entries = [entry for item in what or ("xpsample",) for name in _names(item) for entry in REFERENCES[name]]
    return "\n\n".join(dict.fromkeys(entries))


def known_names() -> list[str]:
    """The names that `citation` takes."""
    return sorted(REFERENCES)


def _names(item: Any) -> list[str]:
    if isinstance(item, str):
        return [_key(part) for part in re.split(r"[(),\s]+", item) if part]
    if not is_dataclass(item) or isinstance(item, type):
        raise XpsampleError(f"citation takes names and kernels; got {item!r}")
    return [_key(type(item).__name__), *_parts(item)]


def _parts(owner: Any) -> list[str]:
    """Names of the methods inside a kernel; its other values (schedules, choices) have none and are skipped."""
    names: list[str] = []
    for f in fields(owner):
        value = getattr(owner, f.name)
        if is_dataclass(value) and not isinstance(value, type):
            name = _plain(type(value).__name__)
            names += ([_KEYS[name]] if name in _KEYS else []) + _parts(value)
    return names


def _plain(name: str) -> str:
    return re.sub(r"[-_]", "", name.lower())


_KEYS = {_plain(name): name for name in REFERENCES}
_KEYS |= {alias: _KEYS[name] for alias, name in ALIASES.items()}


def _key(name: str) -> str:
    plain = _plain(name)
    if plain not in _KEYS:
        near = difflib.get_close_matches(plain, _KEYS, n=3)
        known = ", ".join(dict.fromkeys(_KEYS[n] for n in near) if near else known_names())
        raise XpsampleError(
            f"no citation is known for {name!r}; " + (f"did you mean {known}?" if near else f"known: {known}")
        )
    return _KEYS[plain]
