"""One error of ours for whatever fails while a file is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xpsample.core.errors import XpsampleError


@contextmanager
def reading(path: Path | str, error: type[XpsampleError], advice: str, doing: str = "read") -> Iterator[None]:
    """Make one error of ours, which names the file and says what to do, of whatever fails while a file is read.

    A damaged file can fail in any way. Too little memory is another matter.
    """
    try:
        yield
    except (XpsampleError, MemoryError):
        raise
    except Exception as cause:
        raise error(f"{path} cannot be {doing} ({type(cause).__name__}: {cause}): {advice}") from cause
