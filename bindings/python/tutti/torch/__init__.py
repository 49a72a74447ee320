"""A torch.distributed backend: ``import tutti.torch``, then ``torch.distributed.init_process_group("tutti")``.

Works with torch 1.13 and every later version; see README.md beside this file for what it offers.
"""

from __future__ import annotations

import inspect

import torch.distributed as dist

from .process_group import TuttiProcessGroup, create
from .work import TuttiWork

NAME = "tutti"


def register() -> None:
    """Makes the backend known to torch, for CPU and CUDA tensors. Done at import; doing it again changes nothing."""
    if NAME.upper() in dist.Backend._plugins:
        return
    keywords = {"devices": ["cpu", "cuda"]} if "devices" in inspect.signature(dist.Backend.register_backend).parameters else {}
    dist.Backend.register_backend(NAME, create, extended_api=True, **keywords)


register()

__all__ = ["NAME", "TuttiProcessGroup", "TuttiWork", "create", "register"]
