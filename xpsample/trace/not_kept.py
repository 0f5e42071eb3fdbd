"""What a trace has in place of a kernel that was not kept."""

from typing import Any

from xpsample.core.errors import TraceError

ADVICE = "trace.metadata['kernel'] shows it, to be written again, and citation takes that text"


class NotKept:
    """Says why there is no kernel, whatever is asked of it."""

    def __init__(self, why: str) -> None:
        self._why = why

    def __repr__(self) -> str:
        return f"<no kernel: {self._why}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what copies and notebooks look for
            raise AttributeError(name)
        raise TraceError(f"trace.kernel has no {name}, for {self._why}: {ADVICE}")


FROM_A_FILE = NotKept("the trace is from a file, which has none")
OF_SHARDS = NotKept("each shard was tuned for itself")
