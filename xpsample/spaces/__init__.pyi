# The names of `__init__.py`, each with its module, for type checkers; a test compares both files.

from xpsample.spaces.categorical import Categorical as Categorical
from xpsample.spaces.categorical import OneHot as OneHot
from xpsample.spaces.constrained import Circular as Circular
from xpsample.spaces.constrained import Interval as Interval
from xpsample.spaces.constrained import LowerBounded as LowerBounded
from xpsample.spaces.constrained import Positive as Positive
from xpsample.spaces.constrained import UpperBounded as UpperBounded
from xpsample.spaces.discrete import Binary as Binary
from xpsample.spaces.discrete import Discrete as Discrete
from xpsample.spaces.discrete import Permutations as Permutations
from xpsample.spaces.discrete import Spins as Spins
from xpsample.spaces.integers import Integers as Integers
from xpsample.spaces.json_form import space_from_json as space_from_json
from xpsample.spaces.matrices import CorrelationCholesky as CorrelationCholesky
from xpsample.spaces.matrices import CovarianceCholesky as CovarianceCholesky
from xpsample.spaces.simplexes import Ordered as Ordered
from xpsample.spaces.simplexes import PositiveOrdered as PositiveOrdered
from xpsample.spaces.simplexes import Simplex as Simplex
from xpsample.spaces.simplexes import UnitVector as UnitVector
from xpsample.spaces.simplexes import ZeroSum as ZeroSum
from xpsample.spaces.space import Constrained as Constrained
from xpsample.spaces.space import Real as Real
from xpsample.spaces.space import Space as Space
