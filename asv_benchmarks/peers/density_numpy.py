"""Logistic regression for NumPy."""

import numpy as np


def log_density(x, rows):
    return both(x, rows)[0]


def score(x, rows):
    margin = x @ rows.T
    return _sigmoid_of_minus(margin, np.exp(-np.abs(margin))) @ rows - x


def both(x, rows):
    margin = x @ rows.T
    small = np.exp(-np.abs(margin))
    log_sigmoid = np.minimum(margin, 0) - np.log1p(small)
    log_density = log_sigmoid.sum(axis=-1) - 0.5 * (x * x).sum(axis=-1)
    return log_density, _sigmoid_of_minus(margin, small) @ rows - x


def _sigmoid_of_minus(margin, small):
    return np.where(margin < 0, 1.0, small) / (1 + small)
