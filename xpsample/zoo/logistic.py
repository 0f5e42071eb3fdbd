"""Logistic regressions, all derivatives analytic: plain, sparse, and of item response theory."""

import csv
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from xpsample.core.arrays import Array
from xpsample.core.errors import HyperparameterError
from xpsample.core.registry import namespace
from xpsample.core.special import sigmoid, softplus, softplus_and_sigmoid
from xpsample.targets.target import Target
from xpsample.zoo.data import load_dataset
from xpsample.zoo.moments import KnownMoments, long_run_moments, normal_moments


def logistic_regression(features: np.ndarray, labels: np.ndarray, prior_scale: float = 1.0) -> Target:
    """The posterior of the coefficients w of a logistic regression.

    ``p(y_i = 1 | w) = 1 / (1 + exp(-a_i . w))`` and ``w ~ N(0, prior_scale^2 I)``, as in Appendix D.1.1 of the SRMC
    paper; constants are dropped. Positions (*chains, dim) are the coefficients.

    Parameters
    ----------
    features : numpy.ndarray, shape (rows, dim) or (*data, rows, dim)
        The rows a_i; for an intercept, add a column of ones. With axes in front every element of them is a data set of
        its own, and positions are (*data, chains, dim): many posteriors in one run.
    labels : numpy.ndarray, shape (rows,) or (*data, rows)
        0 or 1.
    prior_scale : float
        Standard deviation of the prior, in units of the coefficients.

    Returns
    -------
    Target
        With score and Hessian-vector product.

    Raises
    ------
    HyperparameterError
        If the shapes do not fit, a label is neither 0 nor 1, or the prior scale is not positive.
    """
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if features.ndim < 2 or labels.shape != features.shape[:-1]:
        raise HyperparameterError(
            f"features have shape (*data, rows, dim) and labels (*data, rows); got {features.shape} and {labels.shape}"
        )
    if not np.all((labels == 0) | (labels == 1)):
        raise HyperparameterError(f"labels must be 0 or 1; got {np.unique(labels)[:5]}")
    if not prior_scale > 0:
        raise HyperparameterError(f"prior_scale must be positive; got {prior_scale}")
    precision = 1.0 / float(prior_scale) ** 2
    # With b_i = -a_i for label 1 and a_i for label 0, p(y_i | w) = sigmoid(-b_i . w): one formula for both labels. The
    # b_i are columns: then both products run along rows of the array, which is faster with few chains.
    signed = np.ascontiguousarray(np.swapaxes(features * (1.0 - 2.0 * labels[..., None]), -1, -2))

    # Arrays of chains times rows are most of the cost, so no formula makes more of them than it must.

    def log_density(x: Array, columns: Array) -> Array:
        xp = namespace(x)
        return _log_density(xp, x, softplus(x @ columns))

    def _log_density(xp: Any, x: Array, losses: Array) -> Array:
        return -0.5 * precision * xp.sum(x * x, axis=-1) - xp.sum(losses, axis=-1)

    def both(x: Array, columns: Array) -> tuple[Array, Array]:
        xp = namespace(x)
        losses, slopes = softplus_and_sigmoid(x @ columns)
        return _log_density(xp, x, losses), -precision * x - slopes @ xp.matrix_transpose(columns)

    def score(x: Array, columns: Array) -> Array:
        xp = namespace(x)
        return -precision * x - sigmoid(x @ columns) @ xp.matrix_transpose(columns)

    def hvp(x: Array, v: Array, columns: Array) -> Array:
        xp = namespace(x)
        p = sigmoid(x @ columns)
        return -precision * v - (p * (1.0 - p) * (v @ columns)) @ xp.matrix_transpose(columns)

    def score_plus_hvp(x: Array, v: Array, columns: Array) -> Array:
        xp = namespace(x)
        p = sigmoid(x @ columns)
        return -precision * (x + v) - (p + p * (1.0 - p) * (v @ columns)) @ xp.matrix_transpose(columns)

    return Target(
        log_density, score=score, hvp=hvp, log_density_and_score=both, score_plus_hvp=score_plus_hvp, data=signed
    )


class BreastCancer(NamedTuple):
    """Wisconsin Diagnostic Breast Cancer data, split into training and held-out rows.

    ``train_features`` and ``test_features`` have shape (rows, 31): a column of ones, then the 30 measurements,
    standardized by mean and standard deviation of the training rows. Labels are 1 for malignant, 0 for benign.
    ``names`` names the 31 coefficients.
    """

    train_features: np.ndarray
    train_labels: np.ndarray
    test_features: np.ndarray
    test_labels: np.ndarray
    names: tuple[str, ...]


def load_breast_cancer() -> BreastCancer:
    """Read the data that come with the package: 569 rows, of which a fixed random fifth (114) is held out.

    Source and license are in the head of ``xpsample/zoo/files/wdbc.csv`` (Wolberg, Street and Mangasarian,
    doi:10.24432/C5DW2B, CC BY 4.0).
    """
    measured, labels, header = measurements()
    order = np.random.Generator(np.random.PCG64(569)).permutation(len(labels))
    cut = round(0.2 * len(labels))
    test, train = np.sort(order[:cut]), np.sort(order[cut:])
    mean, sd = measured[train].mean(axis=0), measured[train].std(axis=0)
    features = np.concatenate([np.ones((len(labels), 1)), (measured - mean) / sd], axis=1)
    names = ("intercept", *header)
    return BreastCancer(features[train], labels[train], features[test], labels[test], names)


def measurements() -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """All 569 rows in the order of the source: the 30 measurements, labels (1 for malignant), names of the columns."""
    text = files("xpsample.zoo").joinpath("files/wdbc.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    table = np.asarray(rows, dtype=np.float64)
    return table[:, 1:], table[:, 0].astype(np.int64), tuple(name.replace("_", " ") for name in header[1:])


def breast_cancer() -> Target:
    """The posterior of the 31 coefficients given the training rows, under standard normal priors."""
    data = load_breast_cancer()
    return logistic_regression(data.train_features, data.train_labels)


def breast_cancer_moments() -> KnownMoments:
    """Moments of the coefficients of `breast_cancer` from a long run."""
    return long_run_moments("breast-cancer")


def german_credit(features: np.ndarray | None = None, labels: np.ndarray | None = None) -> Target:
    """The posterior of a logistic regression with a sparse prior, ``GermanCreditNumericSparseLogisticRegression``.

    ``w_i ~ N(0, 1)``, ``local_i ~ Gamma(1/2, 1/2)``, ``global ~ Gamma(1/2, 1/2)`` (shape, rate) and
    ``p(label = 1) = sigmoid(sum_i feature_i w_i local_i global)``. With n columns, positions (*chains, 1 + 2 n) are
    ``log global``, the ``log local_i``, then the w_i; see `german_credit_parameters`.

    Parameters
    ----------
    features : numpy.ndarray, shape (rows, n), optional
        With a column of ones for the intercept. By default the features of the German credit data, each standardized to
        mean 0 and standard deviation 1, the ones last.
    labels : numpy.ndarray, shape (rows,), optional
        0 or 1; by default 1 for bad credit.

    Returns
    -------
    Target
        With its score. Takes positions of any library.

    Raises
    ------
    HyperparameterError
        If one of the two is given without the other, or the shapes do not fit.
    """
    if (features is None) != (labels is None):
        raise HyperparameterError("pass both features and labels, or neither")
    if features is None or labels is None:
        features, labels = german_credit_rows()
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise HyperparameterError(
            f"features have shape (rows, n) and labels (rows,); got {features.shape} and {labels.shape}"
        )
    n = features.shape[1]
    # With b_i = -a_i for label 1 and a_i for label 0, p(y_i | w) = sigmoid(-b_i . w); the b_i are columns.
    signed = np.ascontiguousarray((features * (1.0 - 2.0 * labels[:, None])).T)

    def parts(x: Array) -> tuple[Any, Array, Array, Array]:
        """Namespace; the scales (*chains, 1 + n); what w is multiplied by; the coefficients, both (*chains, n)."""
        xp = namespace(x)
        scales = xp.exp(x[..., : n + 1])
        factors = scales[..., :1] * scales[..., 1:]
        return xp, scales, factors, factors * x[..., n + 1 :]

    def prior(xp: Any, x: Array, scales: Array) -> Array:
        w = x[..., n + 1 :]
        return 0.5 * xp.sum(x[..., : n + 1] - scales, axis=-1) - 0.5 * xp.sum(w * w, axis=-1)

    def log_density(x: Array, columns: Array) -> Array:
        xp, scales, _, coefficients = parts(x)
        return prior(xp, x, scales) - xp.sum(softplus(coefficients @ columns), axis=-1)

    def both(x: Array, columns: Array) -> tuple[Array, Array]:
        xp, scales, factors, coefficients = parts(x)
        losses, slopes = softplus_and_sigmoid(coefficients @ columns)
        slope = -(slopes @ columns.T)  # of the log likelihood in the coefficients
        along = slope * coefficients
        in_logs = xp.concat([xp.sum(along, axis=-1, keepdims=True), along], axis=-1) + 0.5 - 0.5 * scales
        score = xp.concat([in_logs, slope * factors - x[..., n + 1 :]], axis=-1)
        return prior(xp, x, scales) - xp.sum(losses, axis=-1), score

    return Target(log_density, score=lambda x, data: both(x, data)[1], log_density_and_score=both, data=signed)


def german_credit_rows() -> tuple[np.ndarray, np.ndarray]:
    """The standardized features with a last column of ones, (1000, 25), and labels (1000,), 1 for bad credit."""
    found = load_dataset("targets/german_credit")
    raw = found["features"]
    standard = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    return np.concatenate([standard, np.ones((len(raw), 1))], axis=1), found["bad"]


def german_credit_parameters(x: Array) -> Array:
    """From positions (*chains, 1 + 2 n) to the global scale, the local scales and the unscaled weights."""
    xp, scales = namespace(x), (x.shape[-1] + 1) // 2
    return xp.concat([xp.exp(x[..., :scales]), x[..., scales:]], axis=-1)


def german_credit_moments() -> KnownMoments:
    """Moments of `german_credit_parameters` for the default data, from a long run."""
    return long_run_moments("german-credit")


def item_response(
    student: np.ndarray | None = None, question: np.ndarray | None = None, correct: np.ndarray | None = None
) -> Target:
    """The posterior of abilities and difficulties, ``SyntheticItemResponseTheory``.

    ``mean ~ N(0.75, 1)``, ``ability_i ~ N(0, 1)``, ``difficulty_j ~ N(0, 1)`` and
    ``p(correct) = sigmoid(mean + ability_i - difficulty_j)``. Positions (*chains, 1 + students + questions) are the
    mean, the abilities and the difficulties.

    Parameters
    ----------
    student, question, correct : numpy.ndarray, shape (answers,), optional
        Who answered what (numbers from 0; no pair twice), and 1 for a correct answer, otherwise 0. By default the
        made-up data of TensorFlow Probability's Inference Gym.

    Returns
    -------
    Target
        With its score. Takes positions of any library. Its largest array is (*chains, students, questions). Not finite
        where a logit is so large that its exponential is not, which is far beyond the prior.

    Raises
    ------
    HyperparameterError
        If only some of the three are given, or their shapes differ.
    """
    given: list[Any] = [student, question, correct]
    if all(array is None for array in given):
        found = load_dataset("targets/item_response")
        given = [found[name] for name in ("student", "question", "correct")]
    if any(array is None for array in given) or len({np.shape(array) for array in given}) != 1:
        raise HyperparameterError("pass student, question and correct, all of one shape (answers,), or none of them")
    student, question, correct = (np.asarray(array, dtype=np.int64) for array in given)
    students, questions = int(np.max(student)) + 1, int(np.max(question)) + 1
    asked, right = np.zeros((students, questions)), np.zeros((students, questions))
    asked[student, question], right[student, question] = 1.0, correct
    # The log likelihood is linear in the answers, so that their sums are all that is needed of them.
    sums = np.concatenate([[np.sum(right)], np.sum(right, axis=1), -np.sum(right, axis=0)])
    data = {"asked": asked, "sums": sums, "prior_mean": 0.75 * (np.arange(len(sums)) == 0)}

    def odds_of(x: Array) -> tuple[Any, Array]:
        """Namespace; the odds of a right answer, (*chains, students, questions), from one exponential of each."""
        xp = namespace(x)
        ability, difficulty = x[..., :1] + x[..., 1 : students + 1], x[..., students + 1 :]
        return xp, xp.exp(ability)[..., :, None] * xp.exp(-difficulty)[..., None, :]

    def linear(xp: Any, x: Array, data: Any) -> Array:
        off = x - data["prior_mean"]
        return xp.sum(x * data["sums"] - 0.5 * off * off, axis=-1)

    def log_density(x: Array, data: Any) -> Array:
        xp, odds = odds_of(x)
        return linear(xp, x, data) - xp.sum(data["asked"] * xp.log1p(odds), axis=(-2, -1))

    def both(x: Array, data: Any) -> tuple[Array, Array]:
        xp, odds = odds_of(x)
        probability = data["asked"] * (odds / (1.0 + odds))
        by_student, by_question = xp.sum(probability, axis=-1), xp.sum(probability, axis=-2)
        expected = xp.concat([xp.sum(by_student, axis=-1, keepdims=True), by_student, -by_question], axis=-1)
        density = linear(xp, x, data) - xp.sum(data["asked"] * xp.log1p(odds), axis=(-2, -1))
        return density, data["sums"] - expected - (x - data["prior_mean"])

    return Target(log_density, score=lambda x, data: both(x, data)[1], log_density_and_score=both, data=data)


def item_response_moments() -> KnownMoments:
    """Mean and variance of the Inference Gym; the variance of squares is a normal's, within 4 % here."""
    found = load_dataset("targets/item_response")
    names = ("mean_student_ability", "centered_student_ability", "question_difficulty")
    mean, sd = (np.concatenate([np.ravel(found[f"{name}_{what}"]) for name in names]) for what in ("mean", "sd"))
    return normal_moments(mean, sd**2)
