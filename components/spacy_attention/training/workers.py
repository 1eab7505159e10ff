"""The processes that train one pipeline together, each on its share of every batch, all with the same weights."""

import contextlib
import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from spacy.language import Language
from spacy.training import Example
from thinc.api import Optimizer
from torch import Tensor

from ..errors import Errors
from .optimizer import AdamW
from .weights import find_weights, weight_names

T = TypeVar("T")
# Gradients travel together up to so many numbers (64 MB), because every message has a price of its own.
BUCKET = 16_777_216
# Until all are there.
MEETING = timedelta(minutes=5)
# For the slowest thing that the first worker does alone, evaluating; one that dies is noticed at once.
TIMEOUT = timedelta(days=1)


class Workers:
    """One process alone: what it has is all there is.

    rank (int): number of this process, from 0. The first one evaluates, writes and logs.
    size (int): number of processes.
    """

    rank = 0
    size = 1

    @property
    def is_first(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0

    def check(self, optimizer: Optimizer, seed: int | None) -> None:
        """optimizer (Optimizer), seed (int | None): of the config. RAISES (ValueError): E627 for what cannot be trained so."""

    def share(self, batch: list[Example]) -> list[Example]:
        """batch (list): the same in all processes. RETURNS (list): what this one takes of it."""
        return batch

    def check_weights(self, nlp: Language) -> None:
        """nlp (Language): of this process. RAISES (ValueError): E629 where processes have other weights."""

    def sum_numbers(self, numbers: dict[str, float]) -> dict[str, float]:
        """numbers (dict): of this process. RETURNS (dict): sums over all, under every name that any has."""
        return numbers

    def sum_gradients(self, nlp: Language, optimizer: Optimizer) -> None:
        """Make the collected gradients those of the whole batch. nlp (Language): holds the weights. optimizer (Optimizer): has collected."""

    def from_first(self, make: Callable[[], T]) -> T:
        """make (Callable): called in the first process only. RETURNS: what it gave there; in all processes."""
        return make()

    def gather(self, value: T) -> list[T]:
        """value: of this process. RETURNS (list): those of all, by rank."""
        return [value]


class WorkerGroup(Workers):
    """One of several processes that know each other through `torch.distributed`.

    rank (int): number of this process, from 0. size (int): number of processes.
    group (ProcessGroup | None): in which they speak; None for all that there are.
    """

    def __init__(self, rank: int, size: int, group: dist.ProcessGroup | None = None):
        self.rank = rank
        self.size = size
        self._group = group
        self._names: dict[Any, str] = {}

    def check(self, optimizer: Optimizer, seed: int | None) -> None:
        """Gradients of other optimizers cannot be summed before their step, and without a seed weights and batches would differ."""
        if not isinstance(optimizer, AdamW) or seed is None:
            raise ValueError(Errors.E627.format(n=self.size, optimizer=type(optimizer).__name__, seed=seed))

    def share(self, batch: list[Example]) -> list[Example]:
        """Every n-th document, so that a batch sorted by length gives shares of like length. Losses are sums, so gradients add up.

        RAISES (ValueError): E629 for a batch that is not the same everywhere.
        """
        self._check_same("batches", zlib.crc32("\n".join(eg.reference.text for eg in batch).encode("utf8")))
        return batch[self.rank :: self.size]

    def check_weights(self, nlp: Language) -> None:
        """To the last bit: what is the same at the start stays so."""
        digest = hashlib.sha256()
        for weight in sorted(find_weights(nlp), key=lambda weight: weight.name):
            digest.update(weight.name.encode("utf8"))
            digest.update(weight.read())
        self._check_same("weights", digest.hexdigest())

    def sum_numbers(self, numbers: dict[str, float]) -> dict[str, float]:
        """In the order of ranks, so that all have the same to the last bit."""
        total: dict[str, float] = {}
        for part in self.gather({name: float(number) for name, number in numbers.items()}):
            for name, number in part.items():
                total[name] = total.get(name, 0.0) + number
        return total

    def sum_gradients(self, nlp: Language, optimizer: Optimizer) -> None:
        """All processes send the gradients of the same weights in the same order: zeros where the own share had nothing to say."""
        optimizer = cast(AdamW, optimizer)  # See `check`.
        names = self._names_of(nlp, optimizer)
        layouts = self._agree({names[key]: gradient.is_sparse for key, gradient in optimizer.gradients.items()})
        missing = layouts.keys() - {names[key] for key in optimizer.gradients}
        for weight in find_weights(nlp) if missing else ():
            if weight.name in missing:
                weight.collect_zeros(optimizer, layouts[weight.name])
        names = self._names_of(nlp, optimizer)
        keys = sorted(optimizer.gradients, key=names.__getitem__)
        # In this order also for the clip, whose norm is then the same everywhere to the last bit.
        optimizer.gradients = dict(zip(keys, self._sum_tensors([optimizer.gradients[key] for key in keys]), strict=True))

    def from_first(self, make: Callable[[], T]) -> T:
        """While it works the others wait."""
        values = [make() if self.is_first else None]
        with _peers():
            dist.broadcast_object_list(values, src=0, group=self._group)
        return values[0]  # type: ignore[return-value]

    def gather(self, value: T) -> list[T]:
        """Also the moment at which the processes wait for each other."""
        values: list[Any] = [None] * self.size
        with _peers():
            dist.all_gather_object(values, value, group=self._group)
        return values

    def _agree(self, own: dict[str, bool]) -> dict[str, bool]:
        return {name: is_sparse for part in self.gather(own) for name, is_sparse in part.items()}

    def _names_of(self, nlp: Language, optimizer: AdamW) -> dict[Any, str]:
        """Names by key, made again when there are weights that were not there before, such as adapters."""
        if not optimizer.gradients.keys() <= self._names.keys():
            self._names = weight_names(nlp)
        if unknown := [key[:2] for key in optimizer.gradients if key not in self._names]:
            raise ValueError(Errors.E626.format(n=len(unknown), examples=sorted(name for _, name in unknown)[:3]))
        return self._names

    def _check_same(self, what: str, value: Any) -> None:
        values = self.gather(value)
        if values.count(values[0]) < self.size:
            raise ValueError(Errors.E629.format(what=what, ranks=[rank for rank, other in enumerate(values) if other != values[0]]))

    def _sum_tensors(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        summed = list(tensors)
        for bucket in _buckets(tensors):
            flat = self._all_reduce(torch.cat([tensors[i].reshape(-1) for i in bucket]))
            for i, part in zip(bucket, flat.split([tensors[i].numel() for i in bucket]), strict=True):
                summed[i] = part.view_as(tensors[i])
        for i, tensor in enumerate(tensors):
            if tensor.is_sparse:
                summed[i] = self._all_reduce(tensor.coalesce())
        return summed

    def _all_reduce(self, tensor: Tensor) -> Tensor:
        with _peers():
            dist.all_reduce(tensor, group=self._group)
        return tensor


@contextlib.contextmanager
def join_workers(rank: int, size: int, *, init_method: str, gpu: int = -1) -> Iterator[WorkerGroup]:
    """Within this context the processes can speak to each other.

    rank (int): number of this process, from 0. size (int): number of processes.
    init_method (str): where they meet, as of `torch.distributed.init_process_group`.
    gpu (int): of this process; -1 for the CPU.
    YIELDS (WorkerGroup): of this process.
    RAISES (OSError): E628 when others do not come, or are gone.
    """
    if gpu >= 0:
        torch.cuda.set_device(gpu)
    backend = "gloo" if gpu < 0 else "cpu:gloo,cuda:nccl"
    with _peers():
        dist.init_process_group(backend, init_method=init_method, rank=rank, world_size=size, timeout=MEETING)
        group = dist.new_group(backend=backend, timeout=TIMEOUT)
    yield WorkerGroup(rank, size, group)
    # Not after an error: the others would see that this one is gone before it could say why.
    dist.destroy_process_group()


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[int]]:
    """YIELDS (list[int]): places of dense tensors that travel together."""
    bucket: list[int] = []
    for i, tensor in enumerate(tensors):
        if tensor.is_sparse:
            continue
        if bucket and sum(tensors[j].numel() for j in bucket) + tensor.numel() > BUCKET:
            yield bucket
            bucket = []
        bucket.append(i)
    if bucket:
        yield bucket


@contextlib.contextmanager
def _peers() -> Iterator[None]:
    """What torch says when another process is gone, in our words."""
    try:
        yield
    except RuntimeError as err:
        raise ConnectionError(Errors.E628.format(reason=str(err).splitlines()[0])) from err
