"""Derivatives as values: how a target gets its score and its Hessian-vector products."""

from xpsample.gradients.choices import Auto as Auto
from xpsample.gradients.choices import FiniteDifference as FiniteDifference
from xpsample.gradients.choices import GradientChoice as GradientChoice
from xpsample.gradients.choices import NativeGradient as NativeGradient
from xpsample.gradients.choices import Via as Via
