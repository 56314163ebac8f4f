"""The directory of an export takes its place when it is whole, and leaves nothing beside it."""

from __future__ import annotations

import pytest

from importer.exports import directory as directories
from importer.exports.directory import ExportDirectory, remove_left_over
from importer.exports.place import check_place
from store.errors import UsageError
from store.fs import FileSystem
from tests.importer.exports.exporting import nothing_else, tree
from tests.moments import Moments


class _Signalled(BaseException): ...


def interrupted(work, number):
    """Do work, and raise at a moment of it; return whether it came so far."""

    def act(_):
        raise _Signalled

    files = {directories.__file__, __file__}
    moments = Moments(lambda frame: frame.f_code.co_filename in files, number, act)
    moments.start()
    try:
        work()
    except _Signalled:
        return True
    finally:
        moments.stop()
    return False


# Between `os.scandir` and its `with` a signal leaves the iterator to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("only", [None, "deep/x"])
def test_a_signal_at_any_moment_leaves_all_or_nothing(tmp_path, only):
    fs = FileSystem()
    fs.is_durable = False

    def work():
        with ExportDirectory(fs, check_place(place), only) as made:
            made.make("deep/x", 1, [(0, b"x")])
            made.commit("deep/x", 1)
            made.publish()

    whole = 0
    for number in range(1, 1000):
        parent = tmp_path / str(number)
        parent.mkdir()
        place = parent / "new" / "out"

        came = interrupted(work, number)

        if not came:
            break
        if place.exists():
            whole += 1
            assert [path.name for path in place.parent.iterdir()] == ["out"], number
        else:
            assert tree(parent) == {}, number
            assert list(parent.iterdir()) == [], number
    assert not came
    assert number > 100
    assert whole > 1


def test_what_comes_there_meanwhile_stays(tmp_path):
    place = check_place(tmp_path / "out")
    with ExportDirectory(FileSystem(), place) as made:
        made.make("x", 1, [(0, b"x")])
        made.commit("x", 1)
        place.mkdir()
        (place / "mine").write_text("mine")
        with pytest.raises(UsageError, match="meanwhile"):
            made.publish()
    assert tree(place) == {"mine": b"mine"}
    assert nothing_else(tmp_path, "out")


def test_only_the_left_overs_of_the_dead_are_removed(tmp_path):
    place = check_place(tmp_path / "out")
    fs = FileSystem()
    prefix = directories._prefix(place)
    dead = tmp_path / f"{prefix}{'0' * 16}"
    (dead / "deep").mkdir(parents=True)
    (dead / "deep" / "file").write_text("x")
    others = tmp_path / (directories._prefix(tmp_path / "other") + "0" * 16)
    others.mkdir()
    target = tmp_path / "mine"
    target.mkdir()
    (target / "file").write_text("mine")
    (tmp_path / f"{prefix}{'1' * 16}").symlink_to(target)
    (tmp_path / f"{prefix}{'2' * 16}").write_text("a file")
    (tmp_path / f"{prefix}short").mkdir()
    with ExportDirectory(fs, place) as alive:
        remove_left_over(place)
        assert not dead.exists()
        assert alive.path.is_dir()
        assert others.is_dir()
        assert (target / "file").read_text() == "mine"
        assert (tmp_path / f"{prefix}{'1' * 16}").is_symlink()
        assert (tmp_path / f"{prefix}{'2' * 16}").is_file()
        assert (tmp_path / f"{prefix}short").is_dir()
