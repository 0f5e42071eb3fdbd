"""Optimizers of trees of parameters."""

from xpsample.optimize.optimizers import SGD as SGD
from xpsample.optimize.optimizers import Adam as Adam
from xpsample.optimize.optimizers import Averaged as Averaged
from xpsample.optimize.optimizers import Clipped as Clipped
from xpsample.optimize.optimizers import CosineDecay as CosineDecay
