"""rlvr: reinforcement learning with verifiable rewards on math reasoning, on one node."""

__version__ = "0.2.0"
