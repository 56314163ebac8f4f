"""Files that an ONNX file has its data in, under the name of weights in another format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from importer.sources.base import HEAD_BYTES
from importer.sources.containers import FORMATS
from importer.sources.file import SourceFile, opened, read_bytes
from importer.sources.roles import EXPORTS, graph_data
from importer.sources.tree import Tree
from store.errors import InputError, UnsupportedError


def with_external_data(tree: Tree) -> Tree:
    """Return a directory with the data of graphs as such where a name says something else.

    A graph is read only where a file below it is not what its name says. Of a repository on
    the Hub only files that were chosen by their names are there to be read.
    """
    files = tree.files
    graphs = [file for file in files if file.role.format == EXPORTS]
    if not graphs or tree.origin is not None:
        return tree
    others = {
        file.path: file
        for file in files
        if file.role.is_weights and file.role.format != EXPORTS and not _is_weights(file)
    }
    found: dict[str, SourceFile] = {}
    for graph in graphs:
        for path in _data_of(graph, others):
            found[path] = replace(others[path], role=graph_data(graph.path))
    return tree._replace(files=tuple(found.get(file.path, file) for file in files))


def _is_weights(file: SourceFile) -> bool:
    """Return whether the content is that of weights in any format that is read."""
    with opened(file) as descriptor:
        head = read_bytes(file, descriptor, 0, min(HEAD_BYTES, file.size))
    return any(one.claims(file.path, head) is not None for one in FORMATS.values())


def _data_of(graph: SourceFile, others: Mapping[str, SourceFile]) -> Iterator[str]:
    """Yield those of some files that a graph says its data is in."""
    from importer.formats.onnx.model import read_model  # noqa: PLC0415 - few sources have one

    start = f"{graph.directory}/" if graph.directory else ""
    if not any(path.startswith(start) for path in others):
        return
    try:
        with opened(graph) as descriptor:
            model = read_model(
                f"`{graph.path}`",
                graph.size,
                lambda begin, end: read_bytes(graph, descriptor, begin, end),
            )
    except (InputError, UnsupportedError):
        return  # whoever selects it is told why
    for tensor in model.tensors.values():
        if tensor.external is not None:
            path = start + tensor.external.location.removeprefix("./")
            if path in others:
                yield path
