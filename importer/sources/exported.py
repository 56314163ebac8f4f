"""Which ONNX files of a source are its model, and which are exports of one that is there."""

from __future__ import annotations

from importer.sources.roles import EXPORTS, OTHER_FORMAT, FileRole, LeftOut


def place_exports(
    by_directory: dict[str, dict[str, FileRole]], left_out: list[LeftOut], *, is_pipeline: bool
) -> None:
    """Leave out exports of a model that is there in another format, wherever they are.

    Where nothing else is, those in `x/onnx/` are counted among the files of `x`, unless there
    are some in `x` itself.

    Args:
        by_directory: the weights files of each directory, by path; it is changed.
        left_out: gets what is left out.
        is_pipeline: whether the directories are the components of a pipeline.
    """
    formats = {
        directory: {role.format for role in roles.values() if role.format}
        for directory, roles in by_directory.items()
    }
    is_own = not is_pipeline and formats.get("") == {EXPORTS}
    if not is_own and set().union(*formats.values()) - {EXPORTS}:
        for directory, roles in list(by_directory.items()):
            exports = [path for path, role in roles.items() if role.format == EXPORTS]
            left_out += [LeftOut(path, OTHER_FORMAT) for path in exports]
            for path in exports:
                del roles[path]
            if not roles:
                del by_directory[directory]
        return
    for directory in [one for one in by_directory if one.rpartition("/")[2] == EXPORTS]:
        exported = by_directory.pop(directory)
        own = by_directory.setdefault(directory.rpartition("/")[0], {})
        if any(role.format == EXPORTS for role in own.values()):
            left_out += [LeftOut(path, OTHER_FORMAT) for path in exported]
        else:
            own.update(exported)
