import pickle
import traceback
import warnings

import pytest

from xpsample.core import errors
from xpsample.core.errors import CheckpointWarning, Interrupted, XpsampleError

ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, XpsampleError)]


@pytest.mark.parametrize("kind", [*ERRORS, Interrupted])
def test_an_error_names_its_entry_in_the_docs_below_its_message(kind):
    error = kind("thirteen is out of range")
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert str(found) == "thirteen is out of range"
        message, *notes = "".join(traceback.format_exception_only(found)).splitlines()
        assert message.endswith(f"{kind.__name__}: thirteen is out of range")
        assert notes == [f"docs: troubleshooting#{kind.__name__.lower()}"]


def test_the_warning_of_a_save_names_its_entry_at_its_end():
    with pytest.warns(CheckpointWarning) as caught:
        warnings.warn("a row could not be saved", CheckpointWarning, stacklevel=1)
    assert str(caught[0].message) == "a row could not be saved [docs: troubleshooting#checkpointwarning]"
