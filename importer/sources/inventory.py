"""Every tensor and file of a source, with no weight read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from importer.sources.file import SourceFile, read_whole
from importer.sources.roles import why_left_out
from importer.sources.safetensors import Weights, read_tensors, read_weights
from importer.sources.selection import check_variant, choose, has_variant, no_weights
from importer.sources.tensor import SourceTensor
from importer.sources.tree import LeftOut, Origin, Tree, read_tree
from store import limits
from store.errors import InputError, UnsupportedError
from store.json import Json, JsonError, loads
from store.text import printable

CONFIG: Final = "config.json"
_NAMED: Final = 10
"""Components that one note names."""

Document = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a source holds.

    Attributes:
        root: of the source.
        tensors: sorted bytewise by name.
        files: kept byte for byte, sorted by path.
        weights: the files that the tensors are in.
        left_out: what does not become part of the model, and why.
        components: directories with weights, `""` for the source itself, sorted.
        configs: the `config.json` of each directory that has one.
        variant: of the weights, which was asked for.
        origin: the Hub repository that it comes from, if it does.
        notes: what the user should know about how it came here and what was chosen.
    """

    root: Path
    tensors: tuple[SourceTensor, ...]
    files: tuple[SourceFile, ...]
    weights: tuple[SourceFile, ...]
    left_out: tuple[LeftOut, ...]
    components: tuple[str, ...]
    configs: Mapping[str, Document]
    variant: str | None = None
    origin: Origin | None = None
    notes: tuple[str, ...] = ()

    def file(self, path: str) -> SourceFile | None:
        """The kept file at a relative path, if there is one."""
        return next((file for file in self.files if file.path == path), None)

    def document(self, path: str) -> Document | None:
        """Read a kept JSON object, or None where there is no such file.

        Raises:
            InputError: it is no JSON object.
        """
        file = self.file(path)
        return read_document(file) if file is not None else None


def read_inventory(source: Path, variant: str | None = None) -> Inventory:
    """Read what there is in a checkpoint directory, or in a single `.safetensors` file.

    Args:
        variant: of the weights, such as `fp16`.

    Raises:
        NotFoundError: there is no such source.
        InputError: it is malformed, incomplete or hostile.
        UnsupportedError: no format that we read.
    """
    tree = read_tree(source)
    if source.is_file():
        return _single_file(tree, variant)
    return take_inventory(tree, variant)


def take_inventory(tree: Tree, variant: str | None = None) -> Inventory:
    """Read what there is in a checkpoint directory, wherever its files are.

    Raises:
        InputError: it is malformed, incomplete or hostile.
        UnsupportedError: no format that we read.
    """
    by_path = {file.path: file for file in tree.files}
    choice = choose(by_path, variant)
    weights = {
        directory: read_weights(selection, by_path, directory)
        for directory, selection in choice.weights.items()
    }
    if not any(part.tensors for part in weights.values()):
        no_weights(by_path, str(tree.root))
    check_variant((file.path for part in weights.values() for file in part.files), variant)
    return _inventory(tree, weights, [*tree.left_out, *choice.left_out], variant)


def read_document(file: SourceFile) -> Document:
    """Read a JSON file of a source that must be an object.

    Raises:
        InputError: it is not.
    """
    try:
        value = loads(read_whole(file, limits.CONFIG_BYTES), floats=True, constants=True)
    except JsonError as error:
        raise InputError(f"`{file.path}`: {error}", code="E_CONFIG") from error
    if not isinstance(value, dict):
        raise InputError(f"`{file.path}` is no JSON object", code="E_CONFIG")
    return value


def _inventory(
    tree: Tree, weights: dict[str, Weights], left_out: list[LeftOut], variant: str | None
) -> Inventory:
    tensors: dict[str, SourceTensor] = {}
    for part in weights.values():
        for tensor in part.tensors:
            if other := tensors.get(tensor.name):
                raise InputError(
                    f"tensor `{tensor.name}` is in `{other.file.path}` and in "
                    f"`{tensor.file.path}`",
                    code="E_SRC_DUPLICATE",
                )
            tensors[tensor.name] = tensor
    taken = {file.path for part in weights.values() for file in part.files}
    known = {out.path for out in left_out}
    files = []
    for file in tree.files:
        reason = why_left_out(file.path)
        if reason is None:
            files.append(file)
        elif file.path not in taken and file.path not in known:
            left_out.append(LeftOut(file.path, reason))
    configs = {
        file.directory: read_document(file)
        for file in files
        if file.name == CONFIG and file.directory in weights
    }
    return Inventory(
        tree.root,
        tuple(sorted(tensors.values(), key=lambda tensor: tensor.name.encode())),
        tuple(files),
        tuple(sorted((file for part in weights.values() for file in part.files), key=_path)),
        tuple(sorted(left_out, key=lambda out: out.path)),
        tuple(weights),
        configs,
        variant,
        tree.origin,
        (*tree.notes, *_fallen_back(weights, variant)),
    )


def _fallen_back(weights: Mapping[str, Weights], variant: str | None) -> Iterator[str]:
    """Say which components have no weights of the variant that was asked for."""
    if variant is None:
        return
    lacking = [
        f"`{printable(directory or '.')}`"
        for directory, part in weights.items()
        if part.tensors and not has_variant((file.path for file in part.files), variant)
    ]
    if lacking:
        more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
        yield (
            f"no weights of variant `{printable(variant)}` in {', '.join(lacking[:_NAMED])}"
            f"{more}: took the default ones"
        )


def _single_file(tree: Tree, variant: str | None) -> Inventory:
    (file,) = tree.files
    if not file.name.endswith(".safetensors"):
        raise UnsupportedError(
            f"`{printable(file.name)}` is no format that ingot reads yet",
            code="E_FORMAT",
            hint="SOURCE is a directory with safetensors weights, or a `.safetensors` file",
        )
    check_variant((file.path,), variant)
    tensors = sorted(read_tensors(file), key=lambda tensor: tensor.name.encode())
    if not tensors:
        no_weights((file.path,), str(tree.root))
    return Inventory(tree.root, tuple(tensors), (), (file,), (), ("",), {})


def _path(file: SourceFile) -> str:
    return file.path
