"""A step of ours over one of a peer, which is code by hand on the same library or another library of samplers."""

from asv_benchmarks.peers.turns import compare, peer_named

PEERS = ["by_hand_numpy", "by_hand_torch", "by_hand_jax", "blackjax", "numpyro"]
ROUNDS = 5


class Ratio:
    """Our CPU time over theirs, of runs next to each other: logistic regression, an analytic score of ours."""

    params = (PEERS, ["mala", "hmc"], [1, 100])
    param_names = ("peer", "kernel", "chains")
    unit = "times the peer"
    timeout = 300

    def setup(self, peer: str, kernel: str, chains: int) -> None:
        try:
            peer_named(peer)
        except ImportError as error:
            raise NotImplementedError(str(error)) from error

    def track_ratio(self, peer: str, kernel: str, chains: int) -> float:
        return compare(peer, "logistic", kernel, chains, ROUNDS, scores=("analytic",))[0]["cpu_ratio"]
