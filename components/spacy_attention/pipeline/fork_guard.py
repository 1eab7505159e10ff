"""One torch thread in a forked process, without which `nlp.pipe(n_process=2)` hangs.

The threads that torch has started do not survive a fork, and the child's first parallel operation waits for them for ever.
"""

import os

import torch

_registered = False


def guard_forks() -> None:
    """From now on, processes forked from this one run torch on one thread. Called when a component is made; does it once."""
    global _registered
    if not _registered and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_use_one_thread)
        _registered = True


def _use_one_thread() -> None:
    torch.set_num_threads(1)
