"""Calls on a CUDA device as a CUDA graph. Written without a GPU, by torch's documentation, and never run on one."""

from collections.abc import Callable
from functools import partial

import torch

from xpsample.backend import Array
from xpsample.straight import captured


def capture(x: Array) -> captured.Capture | None:
    """What captures calls on the device of positions; None where that is not CUDA's, or nothing is to be captured."""
    return partial(_capture, x.device) if captured.wanted() and x.device.type == "cuda" else None


def _capture(device: torch.device, function: Callable[[], list[Array]]) -> tuple[Callable[[], None], list[Array]]:
    with torch.cuda.device(device):
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream())
        # The stream is set here, since `torch.cuda.graph` does not set it back where a capture fails.
        with torch.cuda.stream(side):
            function()  # makes what is made at first use: autograd's threads, handles and workspaces of this stream
            with torch.cuda.graph(graph, stream=side):  # waits for the device; memory is from a pool of the graph's own
                outputs = function()
        return graph.replay, outputs
