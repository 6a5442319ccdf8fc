"""Many machines.

One batch shared among several processes gives the gradient of one; and
what the paper's models cost, on paper.

Chapter 23; generated from
notebooks/23_distributed.md by `make export`: edit the chapter.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer_lib.loss import Batches, cross_entropy, sum_gradient
from transformer_lib.seq2seq import PAD
from transformer_lib.training import Training

__all__ = [
    "SharedGradient",
    "SharedTraining",
    "agreed",
    "join",
    "leave",
    "share",
    "shared",
]


def join(device: torch.device | str = "cpu") -> tuple[int, int]:
    """This process's rank, and how many there are; (0, 1) when alone.

    Under `torchrun` the processes find each other, by nccl where they
    compute on "cuda" and by gloo elsewhere.
    """
    size = int(os.environ.get("WORLD_SIZE", 1))
    if size == 1:
        return 0, 1
    if not dist.is_initialized():
        cuda = torch.device(device).type == "cuda"
        if cuda:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if cuda else "gloo")
    return dist.get_rank(), size


def leave() -> None:
    """Waits for the others and parts from them."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def agreed(value: Any) -> Any:
    """What process 0 says, in every process; alone, the value itself."""
    if not dist.is_initialized():
        return value
    said = [value]
    dist.broadcast_object_list(said, src=0)
    return said[0]


def share(
    src: Int[Tensor, "B S"], tgt: Int[Tensor, "B n"], rank: int, size: int
) -> tuple[Int[Tensor, "b S"], Int[Tensor, "b n"]]:
    """Every size-th sentence of a batch, from sentence `rank` on.

    Where there is none, one with nothing to learn: every process must take
    part in the sum of gradients.
    """
    if rank < len(src):
        return src[rank::size], tgt[rank::size]
    return src[:1], torch.full_like(tgt[:1], PAD)


class SharedGradient:
    """`mean_gradient` of the batches of all processes; :eq:`all-reduce`.

    Every process has the same weights before, and the same gradients
    after, to the last bit. PyTorch's DistributedDataParallel adds them
    while they are still being computed.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None):
        self.model = DistributedDataParallel(model)
        self.dtype = dtype

    def __call__(
        self,
        model: nn.Module,
        batches: Batches,
        loss: Callable[..., tuple[Tensor, Tensor]] = cross_entropy,
    ) -> tuple[float, int]:
        device = next(model.parameters()).device
        parts = sum_gradient(self.model, batches, loss, self.dtype)
        both = torch.tensor(parts, dtype=torch.float64).to(device)
        dist.all_reduce(both)
        total, count = both[0].item(), int(both[1])
        for parameter in model.parameters():  # DDP has divided by their number
            parameter.grad *= dist.get_world_size() / max(count, 1)
        return total / max(count, 1), count


class SharedTraining(Training):
    """A run in several processes; each draws random numbers of its own."""

    def state_dict(self) -> dict[str, Any]:
        """As Training's, for all processes, which must ask together."""
        state = super().state_dict()
        each: list = [None] * dist.get_world_size()
        dist.all_gather_object(each, state["random"])
        return state | {"random_of_each": each}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError where another number of processes saved it."""
        each, size = state["random_of_each"], dist.get_world_size()
        if len(each) != size:
            raise ValueError(
                f"a run of {len(each)} processes, and here are {size}: "
                f"go on with --nproc-per-node {len(each)}"
            )
        super().load_state_dict(state | {"random": each[dist.get_rank()]})


def shared(
    run: Training,
    batches: Callable[[int], Batches],
    dtype: torch.dtype | None = None,
) -> tuple[SharedTraining, Callable[[int], Batches]]:
    """The run with its batches shared among all processes."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gradient = SharedGradient(run.model, dtype)
    several = SharedTraining(**vars(run) | {"gradient": gradient})
    torch.manual_seed(torch.initial_seed() + 1_000_003 * rank)

    def mine(epoch: int) -> Iterator:
        return (share(*batch, rank, size) for batch in batches(epoch))

    return several, mine
