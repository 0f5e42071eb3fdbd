"""Logistic regression for torch."""

import torch
from torch.nn.functional import logsigmoid


def log_density(x, rows):
    return logsigmoid(x @ rows.T).sum(dim=-1) - 0.5 * (x * x).sum(dim=-1)


def score(x, rows):
    return torch.sigmoid(-(x @ rows.T)) @ rows - x


def both(x, rows):
    margin = x @ rows.T
    log_density = logsigmoid(margin).sum(dim=-1) - 0.5 * (x * x).sum(dim=-1)
    return log_density, torch.sigmoid(-margin) @ rows - x
