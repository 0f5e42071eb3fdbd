"""Effect of repellence on the error of an estimate: the central limit theorem of SRMC, and predictions from it."""

from xpsample.srmc.theory.clt import Linearization as Linearization
from xpsample.srmc.theory.clt import average_covariance as average_covariance
from xpsample.srmc.theory.clt import direction_variance as direction_variance
from xpsample.srmc.theory.clt import drift_matrix as drift_matrix
from xpsample.srmc.theory.clt import gaussian_covariance as gaussian_covariance
from xpsample.srmc.theory.clt import independent as independent
from xpsample.srmc.theory.clt import independent_covariance as independent_covariance
from xpsample.srmc.theory.clt import iterate_covariance as iterate_covariance
from xpsample.srmc.theory.clt import solve_lyapunov as solve_lyapunov
from xpsample.srmc.theory.prediction import Comparison as Comparison
from xpsample.srmc.theory.prediction import MeasuredCovariance as MeasuredCovariance
from xpsample.srmc.theory.prediction import compare as compare
from xpsample.srmc.theory.prediction import cost_per_step as cost_per_step
from xpsample.srmc.theory.prediction import estimate as estimate
from xpsample.srmc.theory.prediction import measured_covariance as measured_covariance
