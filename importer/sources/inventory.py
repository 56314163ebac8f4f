"""Every tensor and file of a source, with no weight read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from importer.formats.content import content_of
from importer.sources.base import HEAD_BYTES, NOTHING, Contents, Selection
from importer.sources.completeness import no_variant, no_weights
from importer.sources.containers import FORMATS
from importer.sources.containers.uqff_shards import only_set_of, shard_name
from importer.sources.document import CONFIG, Document, read_document
from importer.sources.external_data import with_external_data
from importer.sources.file import SourceFile, opened, read_bytes
from importer.sources.joined import declared, may_be_quantized, taken
from importer.sources.roles import LeftOut
from importer.sources.selection import choose
from importer.sources.several import check_one_model
from importer.sources.shards import check_shards
from importer.sources.tensor import SourceTensor
from importer.sources.ties import without_ties
from importer.sources.tree import Origin, Tree, read_tree
from importer.sources.whole import WholeModel
from store import Digest, Layer
from store.errors import UnsupportedError
from store.text import printable

_NAMED: Final = 10  # components in one note


class Inventory(NamedTuple):
    """What a source holds.

    Attributes:
        root: the directory of the source.
        tensors: as the model has them, whatever arrays they are stored as; sorted bytewise
            by name.
        files: kept byte for byte, sorted by path.
        weights: the files that the tensors are in.
        left_out: what does not become part of the model, and why.
        components: the directories with weights, `""` for the source itself, sorted.
        configs: the `config.json` of each component that has one.
        variant: of the weights, as it was asked for.
        origin: the Hub repository that the source comes from, if it does.
        notes: what the user should know about how it came here and what was chosen.
        scheme: how the weights are quantized already, or None.
        is_decoded: whether the tensors are the logical ones, although there is a scheme.
        metadata: what each file of weights says about itself, by path.
        model: the manifest of the stored model that the source is, if it is one.
        use: layers that say how that model is used, with their contents.
        words: its configuration's `parser`, `renderer` and `requires`.
        whole: what the files of weights become if they are kept as they are, or None where
            tensors are taken out of them.
        is_apart: whether tensors are taken out of files that could be kept as they are.
        is_stacked: whether it is a stored model whose experts were stacked when it was made.
        is_requantized: whether it is a stored model that may have types its source had not.
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
    scheme: str | None = None
    is_decoded: bool = False
    metadata: Mapping[str, Mapping[str, str]] = NOTHING
    model: Digest | None = None
    use: tuple[tuple[Layer, bytes], ...] = ()
    words: Mapping[str, str] = NOTHING
    whole: WholeModel | None = None
    is_apart: bool = False
    is_stacked: bool = False
    is_requantized: bool = False

    @property
    def all_files(self) -> tuple[SourceFile, ...]:
        """Everything in the source that becomes part of the model: weights, and kept files."""
        return (*self.weights, *(file for file in self.files if file.maker is None))

    def config_of(self, tensor: SourceTensor) -> Document:
        """Return the `config.json` of a tensor's component, or of the whole source."""
        return self.configs.get(tensor.component) or self.configs.get("", {})

    def file(self, path: str) -> SourceFile | None:
        """Return the kept file at a relative path, if there is one."""
        return next((file for file in self.files if file.path == path), None)

    def document(self, path: str) -> Document | None:
        """Read a kept JSON object, or return None where there is no such file.

        Raises:
            InputError: it is not a JSON object.
        """
        file = self.file(path)
        return read_document(file) if file is not None else None


def read_inventory(
    source: Path, variant: str | None = None, *, as_arrays: bool = False, apart: bool = True
) -> Inventory:
    """Read what there is in a checkpoint directory, or in a single file of weights.

    Args:
        source: the directory or file; a shard of UQFF stands for its directory.
        variant: of the weights, such as `fp16`.
        as_arrays: make no tensors of the arrays of quantized weights.
        apart: take tensors out of files that could be kept as they are.

    Raises:
        NotFoundError: there is no such source.
        InputError: it is malformed, incomplete or hostile.
        UnsupportedError: it is in no format that we read.
    """
    if source.is_file() and shard_name(source.name) is not None:
        tree = read_tree(source.parent)
        tree = tree._replace(files=tuple(only_set_of(tree.files, source.name)))
        return take_inventory(tree, variant, as_arrays=as_arrays, apart=apart)
    tree = read_tree(source)
    if source.is_file():
        return _single_file(tree, variant, as_arrays=as_arrays, apart=apart)
    return take_inventory(tree, variant, as_arrays=as_arrays, apart=apart)


def take_inventory(
    tree: Tree, variant: str | None = None, *, as_arrays: bool = False, apart: bool = True
) -> Inventory:
    """Read what there is in a checkpoint directory, wherever its files are.

    The arguments are those of `read_inventory`.

    Raises:
        InputError: it is malformed, incomplete or hostile.
        UnsupportedError: it is in no format that we read.
    """
    tree = with_external_data(tree)
    by_path = {file.path: file for file in tree.files}
    roles = {path: file.role for path, file in by_path.items()}
    sizes = {path: file.size for path, file in by_path.items()}
    choice = choose(roles, str(tree.root), variant, sizes)
    contents = {
        directory: FORMATS[selection.format].read(selection, by_path, directory)
        for directory, selection in choice.weights.items()
    }
    if not any(part.tensors for part in contents.values()):
        no_weights(roles, str(tree.root))
    taken = {file.path for part in contents.values() for file in part.files}
    # Data of a graph may be in files of any name, which are then weights.
    files = tuple(file for file in tree.files if file.role.is_kept and file.path not in taken)
    left_out = {file.path: file.role.reason for file in tree.files if not file.role.is_kept}
    left_out |= {out.path: out.reason for out in (*choice.left_out, *tree.left_out)}
    configs = {
        file.directory: read_document(file)
        for file in files
        if file.name == CONFIG and file.directory in contents
    }
    notes = (*tree.notes, *check_one_model(contents, configs, by_path))
    said = declared(configs, files)
    found = of_contents(tree, contents, said, as_arrays=as_arrays, apart=apart)
    return found._replace(
        files=merged(files, found.files),
        configs=configs or found.configs,
        left_out=tuple(
            LeftOut(*one) for one in sorted(left_out.items()) if one[0] not in taken
        ),
        variant=variant,
        notes=(*notes, *found.notes, *_fallen_back(choice.weights, contents, variant)),
    )


def of_contents(
    tree: Tree,
    contents: Mapping[str, Contents],
    configs: Mapping[str, Document],
    *,
    as_arrays: bool,
    apart: bool,
) -> Inventory:
    """Return the inventory of weights alone, with no file but those made of them.

    Args:
        tree: whose root and origin are the inventory's.
        contents: of each directory with weights.
        configs: the `config.json` of each that has one.
        as_arrays: as in `read_inventory`, and `apart`.
    """
    parts = {directory: part.tensors for directory, part in contents.items()}
    weights = chain.from_iterable(part.files for part in contents.values())
    metadata = dict(chain.from_iterable(part.metadata.items() for part in contents.values()))
    could_be_whole = contents[""].whole if contents.keys() == {""} else None
    whole = None if apart or (could_be_whole and could_be_whole.why_apart) else could_be_whole
    if whole is None and could_be_whole is not None and could_be_whole.why_whole:
        raise UnsupportedError(
            f"it can be imported whole only: {could_be_whole.why_whole}", code="E_ONLY_WHOLE"
        )
    renamed = None
    if could_be_whole is not None and whole is None and contents[""].headers:
        from importer.sources.containers.gguf_apart import take_apart  # noqa: PLC0415 - few sources are

        renamed = take_apart(contents[""], has_config="" in configs)
        parts = {"": renamed.tensors}
        configs = configs or renamed.configs
    known = {directory: part.joined for directory, part in contents.items()}
    made = taken(parts)
    if could_be_whole is None and may_be_quantized(made.tensors, configs, known):
        from importer.sources.joining import check_read, join  # noqa: PLC0415 - see there

        made = join(parts, configs, metadata, known, as_arrays=as_arrays)
        if not as_arrays:
            check_read(made)
    made = without_ties(made, contents.values())
    return Inventory(
        root=tree.root,
        tensors=made.tensors,
        files=merged((), renamed.files) if renamed is not None else (),
        weights=tuple(sorted(weights, key=lambda file: file.path)),
        left_out=(),
        components=tuple(contents),
        configs=configs,
        origin=tree.origin,
        notes=(
            *(note for part in contents.values() for note in part.notes),
            *_why_apart(could_be_whole, asked=apart),
            *(renamed.notes if renamed is not None else ()),
            *made.notes,
        ),
        scheme=made.scheme,
        is_decoded=made.is_decoded,
        metadata=metadata,
        whole=whole,
        is_apart=could_be_whole is not None and whole is None,
    )


def merged(files: Iterable[SourceFile], made: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
    """Return kept files and those made of weights, sorted; a file of the source goes first."""
    found = {file.path: file for file in made} | {file.path: file for file in files}
    return tuple(found[path] for path in sorted(found))


def _why_apart(could_be_whole: WholeModel | None, *, asked: bool) -> Iterator[str]:
    if could_be_whole is not None and could_be_whole.why_apart and not asked:
        yield f"its tensors are taken out of its files: {could_be_whole.why_apart}"


def _fallen_back(
    weights: Mapping[str, Selection], contents: Mapping[str, Contents], variant: str | None
) -> Iterator[str]:
    """Yield a note that names the components without weights of the variant asked for."""
    if variant is None:
        return
    lacking = [
        f"`{printable(directory or '.')}`"
        for directory, selection in weights.items()
        if contents[directory].tensors and not selection.is_of_variant
    ]
    if lacking:
        more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
        yield (
            f"no weights of variant `{printable(variant)}` in {', '.join(lacking[:_NAMED])}"
            f"{more}: took the default ones"
        )


def _unread(file: SourceFile) -> UnsupportedError:
    """Return the error for a single file, which says what it is."""
    with opened(file) as descriptor:
        head = read_bytes(file, descriptor, 0, min(HEAD_BYTES, file.size))
    is_what = content_of(head) or "not in a format that ingot knows"
    by_name = f" ({file.role.unread} by its name)" if file.role.unread else ""
    return UnsupportedError(
        f"`{printable(file.name)}` is {is_what}{by_name}, expected a file of weights",
        code="E_FORMAT",
        hint="A source is a directory with a checkpoint, or a file of safetensors, PyTorch, "
        "GGUF, ONNX or UQFF",
    )


def _single_file(tree: Tree, variant: str | None, *, as_arrays: bool, apart: bool) -> Inventory:
    # Of a split the others, too, wherever the one that was named is in its order.
    file, *rest = tree.files
    role = file.role
    if not role.is_weights or role.weights is None:
        raise _unread(file)
    if variant is not None and not role.weights.is_of(variant):
        no_variant(variant, (one.role for one in tree.files))
    files = {one.path: one for one in sorted((file, *rest), key=lambda one: one.path)}
    names = {path: one.role.weights for path, one in files.items() if one.role.weights}
    check_shards(names if rest else (), names)
    contents = FORMATS[role.format].read(Selection(role.format, tuple(files)), files, "")
    if not contents.tensors:
        no_weights({file.path: role}, str(tree.root / file.path))
    return of_contents(tree, {"": contents}, {}, as_arrays=as_arrays, apart=apart)
