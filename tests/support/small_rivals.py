"""Rivals of the late-contextualisation network with random weights, as torch makes them."""

from dataclasses import replace

import torch

from small_late import small_late
from whispertide.understand.checkpoint import Kind, LateCheckpoint
from whispertide_lab.training.latecontext.network import tensors_of
from whispertide_lab.training.latecontext.run import make_network


def small_rival(kind: Kind) -> LateCheckpoint:
    """Of the size and with the vocabulary of `small_late`."""
    late = small_late()
    dims = replace(late.dims, kind=kind)
    torch.manual_seed(1)
    network = make_network(dims, dropout=0.1)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return replace(late, dims=dims, tensors=tensors_of(network))
