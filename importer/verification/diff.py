"""What two models have in common and what differs, down to how far their values are apart."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.codecs.base import KernelSpec, Runtime
from importer.codecs.runtime import prepare
from importer.events import Compared, Compiling, Listener, Scanned, silent
from importer.models.places import Role, layer_of, role_of
from importer.sources.inventory import Inventory, read_inventory, take_inventory
from importer.sources.location import HubRepository, Source, StoredModel
from importer.sources.tensor import SourceTensor
from importer.verification.distance import distance, is_identical, kernels
from importer.verification.documents import DocumentDifference, differences
from store import Store
from store.parallel import Stop, each
from store.tensorfile import elements

if TYPE_CHECKING:
    from importer.codecs.metrics import Deviation


@unique
class Kind(StrEnum):
    """How a tensor differs, or that it does not."""

    SAME = "same"
    CHANGED = "changed"
    RETYPED = "retyped"
    RESHAPED = "reshaped"
    ADDED = "added"
    REMOVED = "removed"


class Form(NamedTuple):
    """What a tensor is on one side.

    Attributes:
        type: that its values are packed in, or their dtype.
        shape: logical.
        nbytes: of everything that it is stored in.
    """

    type: str
    shape: tuple[int, ...]
    nbytes: int


class TensorDifference(NamedTuple):
    """A tensor of two models, or of one of them.

    Attributes:
        a: its form on the first side, or None where it is added.
        b: its form on the second, or None where it is removed.
        kind: `retyped` is one that is stored in another type, whatever its values.
        deviation: of the second's values from the first's; None where they are the same, or
            cannot be measured.
        has_same_values: whether every value is the same.
    """

    name: str
    a: Form | None
    b: Form | None
    kind: Kind
    deviation: Deviation | None = None
    has_same_values: bool = False

    @property
    def role(self) -> Role:
        """What it does in the model."""
        return role_of(self.name)

    @property
    def layer(self) -> str:
        """The layer that it belongs to, or ""."""
        return layer_of(self.name)


class Difference(NamedTuple):
    """What was compared and what differs.

    Attributes:
        tensors: of both, the same ones, too, sorted bytewise by name.
        documents: everything beside the weights that differs.
        unread: tensors that are the same because they are the same bytes of the same file.
        nbytes: that were to be read of both sides.
    """

    tensors: tuple[TensorDifference, ...]
    documents: tuple[DocumentDifference, ...]
    unread: int
    nbytes: int

    @property
    def is_empty(self) -> bool:
        """Whether the two are equal."""
        return not self.documents and all(one.kind is Kind.SAME for one in self.tensors)

    def of(self, *kinds: Kind) -> list[TensorDifference]:
        """Return the tensors that differ in one of some ways."""
        return [one for one in self.tensors if one.kind in kinds]


class _Pair(NamedTuple):
    a: SourceTensor
    b: SourceTensor

    @property
    def nbytes(self) -> int:
        return self.a.nbytes + self.b.nbytes


def diff(
    store: Store,
    a: Source,
    b: Source,
    *,
    threads: int = 1,
    listen: Listener = silent,
) -> Difference:
    """Compare two models, each in the store, in a directory or file, or on the Hub.

    Tensors are logical ones, paired by name, and values are compared however they are stored.

    Raises:
        NotFoundError: one is not there.
        InputError: one is malformed, or changed meanwhile.
        UnsupportedError: one cannot be read.
    """
    with _inventory(store, a, listen) as ours, _inventory(store, b, listen) as theirs:
        return _Comparer(ours, theirs, threads, listen).run()


@contextlib.contextmanager
def _inventory(store: Store, source: Source, listen: Listener) -> Iterator[Inventory]:
    if isinstance(source, StoredModel):
        from importer.sources.stored.source import read_stored  # noqa: PLC0415 - not for all

        found = read_stored(store, source.manifest)
    elif isinstance(source, HubRepository):
        from importer.hub.fetch import fetched  # noqa: PLC0415 - 5 ms that few need

        with fetched(source, source.variant, listen) as tree:
            found = take_inventory(tree, source.variant)
            _announce(found, source, listen)
            yield found
        return
    else:
        found = read_inventory(source)
    _announce(found, source, listen)
    yield found


def _announce(inventory: Inventory, source: Source, listen: Listener) -> None:
    nbytes = sum(file.size for file in inventory.weights)
    counts = len(inventory.tensors), len(inventory.weights), nbytes
    listen(Scanned(*counts, inventory.model, str(source)))


class _Comparer:
    def __init__(
        self, ours: Inventory, theirs: Inventory, threads: int, listen: Listener
    ) -> None:
        self._inventories = ours, theirs
        self._a = {tensor.name: tensor for tensor in ours.tensors}
        self._b = {tensor.name: tensor for tensor in theirs.tensors}
        self._threads, self._listen = threads, listen

    def run(self) -> Difference:
        pairs = [
            _Pair(tensor, other)
            for name, tensor in self._a.items()
            if (other := self._b.get(name)) is not None
        ]
        to_read = [
            pair for pair in pairs if pair.a.shape == pair.b.shape and not is_identical(*pair)
        ]
        # By place, so that a disk reads each file from front to back.
        to_read.sort(key=lambda pair: (pair.a.file.path, pair.a.arrays[0].offset))
        total = sum(pair.nbytes for pair in to_read)
        runtime = self._prepared(to_read)
        stop, telling = Stop(), threading.Lock()

        def tell(nbytes: int) -> None:
            with telling:
                self._listen(Compared(nbytes, total))

        def compare(pair: _Pair) -> TensorDifference:
            return _compare(pair, runtime, _Told(pair.nbytes, tell, stop))

        found = {one.name: one for one in each(compare, to_read, self._threads, stop)} | dict(
            self._unread(pairs, {pair.a.name for pair in to_read})
        )
        order = sorted(found, key=str.encode)
        return Difference(
            tuple(found[name] for name in order),
            tuple(differences(*self._inventories)),
            sum(is_identical(*pair) for pair in pairs),
            total,
        )

    def _unread(
        self, pairs: Iterable[_Pair], read: set[str]
    ) -> Iterator[tuple[str, TensorDifference]]:
        for a, b in pairs:
            if a.name not in read:
                is_same = a.shape == b.shape
                kind = Kind.SAME if is_same else Kind.RESHAPED
                one = TensorDifference(
                    a.name, _form(a), _form(b), kind, has_same_values=is_same
                )
                yield a.name, one
        for name in self._a.keys() - self._b.keys():
            yield name, TensorDifference(name, _form(self._a[name]), None, Kind.REMOVED)
        for name in self._b.keys() - self._a.keys():
            yield name, TensorDifference(name, None, _form(self._b[name]), Kind.ADDED)

    def _prepared(self, pairs: Iterable[_Pair]) -> Runtime:
        work: Counter[KernelSpec] = Counter()
        for pair in pairs:
            # What kernels read and write: values, which codes are smaller than.
            nbytes = max(pair.nbytes, _VALUE_BYTES * elements(pair.a.shape))
            for kernel in kernels(*pair):
                work[kernel] += nbytes
        return prepare(work, lambda: self._listen(Compiling()))


_VALUE_BYTES: Final = 4


class _Told:
    """Tells what is read of one pair, in all neither more nor less than it has."""

    def __init__(self, nbytes: int, tell: Callable[[int], None], stop: Stop) -> None:
        self._left, self._tell, self._stop = nbytes, tell, stop

    def __call__(self, nbytes: int) -> None:
        self._stop.check()
        new = min(nbytes, self._left)
        self._left -= new
        if new:
            self._tell(new)

    def finish(self) -> None:
        self(self._left)


def _compare(pair: _Pair, runtime: Runtime, told: _Told) -> TensorDifference:
    a, b = pair
    found = distance(a, b, runtime, told)
    told.finish()
    ours, theirs = _form(a), _form(b)
    kind = Kind.SAME if found.is_same else Kind.CHANGED
    if ours.type != theirs.type:
        kind = Kind.RETYPED
    return TensorDifference(
        a.name, ours, theirs, kind, found.deviation, has_same_values=found.is_same
    )


def _form(tensor: SourceTensor) -> Form:
    return Form(tensor.stored_as or tensor.dtype, tensor.shape, tensor.nbytes)
