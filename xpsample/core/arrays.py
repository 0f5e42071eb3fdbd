"""What an array is, for annotations."""

from typing import Any

Array = Any
