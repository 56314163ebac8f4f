"""What the store has seen before is not made again, and is never taken for something else."""

import contextlib
import os
import random
import sqlite3
import time

import pytest

from importer.codecs.base import REVISION
from importer.engine.growth import growth_of
from importer.events import BlobDone, Planned, Wrote
from importer.pipeline import import_model, plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources import file as source_file
from store import CommitOutcome, ModelName, Store
from store.errors import InputError
from store.memo import Memo
from store.verify import verify
from tests.importer.builders import BITS, safetensors

TICK_NS = 10**7


@pytest.fixture(autouse=True)
def _fine_clock(monkeypatch):
    """The clock of this file system, instead of the two seconds of the coarsest."""
    monkeypatch.setattr("store.memo.GRANULARITY_NS", TICK_NS)


def aged(directory):
    """Let the clock go on, so that the files were not written a moment ago."""
    time.sleep(3 * TICK_NS / 1e9)
    return directory


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "source"
    directory.mkdir()
    numbers = random.Random(7)
    tensors = {
        "a.weight": ("BF16", [8, 8], numbers.randbytes(128)),
        "b.weight": ("BF16", [4, 8], numbers.randbytes(64)),
        "c.weight": ("F32", [], numbers.randbytes(4)),
    }
    (directory / "model.safetensors").write_bytes(safetensors(tensors))
    (directory / "config.json").write_text('{"model_type": "x"}')
    return aged(directory)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def create(store, source, name="m", **options):
    events = []
    request = ImportRequest(ModelName.parse(name), source, **options)
    plan = plan_import(request, store)
    result = import_model(request, plan, store, events.append)
    return result, events


def count_reads(monkeypatch):
    read = []
    original = source_file.read_into

    def counted(descriptor, buffer, offset):
        got = original(descriptor, buffer, offset)
        read.append(got)
        return got

    monkeypatch.setattr(source_file, "read_into", counted)
    return read


def test_an_unchanged_source_is_not_read_again(store, source, monkeypatch):
    first, _ = create(store, source)
    read = count_reads(monkeypatch)

    second, events = create(store, source, "other:tag")

    assert second.digest == first.digest
    assert second.tally(CommitOutcome.NEW) == (0, 0)
    header = (source / "model.safetensors").stat().st_size - 196
    assert sum(read) == header + len('{"model_type": "x"}')  # to classify, not to copy
    assert [event.present for event in events if isinstance(event, Planned)] == [4]


def test_a_touched_source_is_read_but_not_written_again(store, source, monkeypatch):
    first, _ = create(store, source)
    os.utime(source / "model.safetensors")
    renamed = []
    original = store.fs.rename
    monkeypatch.setattr(
        type(store.fs), "rename", lambda _, a, b: (renamed.append(b), original(a, b))
    )

    second, _ = create(store, source)

    assert second.digest == first.digest
    assert second.tally(CommitOutcome.REUSED)[0] >= 4
    assert [path.parent.name for path in renamed].count("blobs") <= 1  # the configuration


def test_a_source_written_just_before_the_look_is_not_believed(store, source, monkeypatch):
    monkeypatch.setattr("store.memo.GRANULARITY_NS", 3600 * 10**9)
    create(store, source)
    request = ImportRequest(ModelName.parse("m"), source)

    growth = growth_of(request, plan_import(request, store), store)

    assert len(growth.jobs) == 4


def test_a_rewritten_source_of_the_same_size_and_time_is_seen(store, source):
    path = source / "model.safetensors"
    create(store, source)
    seen = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    other = path.with_name("other")
    other.write_bytes(data)
    os.utime(other, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    other.replace(path)

    create(store, source, "changed")

    assert verify(store).findings == ()
    changed = store.catalog.get(ModelName.parse("changed")).data
    assert changed != store.catalog.get(ModelName.parse("m")).data


def test_content_that_came_with_an_old_time_is_seen(store, source):
    """`cp -p` over a file keeps its inode and sets its time back; the ctime moves on."""
    path = source / "model.safetensors"
    create(store, source)
    seen = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_ino == seen.st_ino

    create(store, source, "changed")

    changed = store.catalog.get(ModelName.parse("changed")).data
    assert changed != store.catalog.get(ModelName.parse("m")).data


def test_equal_tensors_of_different_names_have_different_blobs(store, tmp_path):
    source = tmp_path / "twins"
    source.mkdir()
    data = bytes(range(64))
    tensors = {name: ("U8", [64], data) for name in ("one", "two")}
    (source / "model.safetensors").write_bytes(safetensors(tensors))
    aged(source)

    create(store, source)
    create(store, source)

    manifest = store.catalog.get(ModelName.parse("m")).parse()
    assert len({layer.digest for layer in manifest.layers}) == 2
    assert verify(store).findings == ()


def test_a_blob_that_changed_on_disk_is_made_again(store, source):
    create(store, source)
    manifest = store.catalog.get(ModelName.parse("m")).parse()
    path = store.blobs.path(manifest.layers[0].digest)
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)

    result, _ = create(store, source)

    assert result.tally(CommitOutcome.RENEWED)[0] == 1
    assert verify(store).findings == ()


def test_a_missing_blob_is_made_again(store, source):
    create(store, source)
    manifest = store.catalog.get(ModelName.parse("m")).parse()
    store.blobs.path(manifest.layers[0].digest).unlink()

    result, _ = create(store, source)

    assert result.tally(CommitOutcome.NEW)[0] == 1
    assert verify(store).findings == ()


@pytest.mark.parametrize("damage", ["garbage", "empty", "truncated", "digests", "deleted"])
def test_a_damaged_database_does_no_harm(store, source, damage):
    first, _ = create(store, source)
    store.close()
    path = store.layout.memo
    if damage == "garbage":
        path.write_bytes(random.Random(1).randbytes(8192))
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "deleted":
        path.unlink()
    else:
        with sqlite3.connect(path) as database:
            database.execute("UPDATE product SET digest = 'no digest'")
            database.execute("UPDATE source SET looked_ns = 'x'")
            database.execute("UPDATE secret SET seed = 'y'")
        database.close()

    second, _ = create(store, source)

    assert second.digest == first.digest
    assert verify(store).findings == ()


def test_a_product_of_another_size_is_none_of_this_plan(store, source):
    first, _ = create(store, source)
    store.close()
    with sqlite3.connect(store.layout.memo) as database:
        smallest = "SELECT digest, size FROM product ORDER BY size LIMIT 1"
        database.execute(f"UPDATE product SET (digest, size) = ({smallest})")
    database.close()

    second, _ = create(store, source)

    assert second.digest == first.digest


def test_another_revision_of_the_codecs_makes_everything_again(store, source, monkeypatch):
    create(store, source)
    monkeypatch.setattr("importer.engine.reuse.REVISION", REVISION + 1)

    _, events = create(store, source)

    assert [event.present for event in events if isinstance(event, Planned)] == [0]
    made = sum(event.nbytes for event in events if isinstance(event, Wrote))
    assert made > 196  # all tensors, their headers and the file


def test_fingerprints_are_secret_to_a_store(tmp_path):
    seeds = {Memo(tmp_path / f"{number}.sqlite").seed(create=True) for number in range(3)}

    assert len(seeds) == 3
    assert Memo(tmp_path / "0.sqlite").seed(create=False) in seeds


def test_asking_creates_no_database(tmp_path):
    memo = Memo(tmp_path / "memo.sqlite")

    assert memo.seed(create=False) is None
    assert memo.product(b"key") is None
    assert memo.pieces(tmp_path, (1, 2, 3, 4)) == {}
    assert list(tmp_path.iterdir()) == []


def test_rehash_makes_everything_again(store, source):
    create(store, source)

    result, events = create(store, source, rehash=True)

    assert result.tally(CommitOutcome.REUSED) == (0, 0)
    assert sum(event.nbytes for event in events if isinstance(event, Wrote)) > 0


def test_rehash_of_one_model_leaves_the_notes_of_another(store, source, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    tensors = {"other.weight": ("F32", [2], bytes(range(8)))}
    (other / "model.safetensors").write_bytes(safetensors(tensors))
    aged(other)
    create(store, other)
    create(store, source)

    result, _ = create(store, source, rehash=True)
    again, events = create(store, other)

    documents = len(result.documents)
    assert result.tally(CommitOutcome.RENEWED)[0] == len(result.written) + documents
    (known,) = [event for event in events if isinstance(event, Planned)]
    assert known.present == known.blobs
    assert again.tally(CommitOutcome.RENEWED) == (0, 0)


def test_an_import_that_failed_goes_on_where_it_stopped(store, source):
    class FullError(Exception):
        pass

    # More than are synced at a time, all of which may be there when one of them fails.
    tensors = {f"{n}.weight": ("F32", [1], n.to_bytes(4, "big")) for n in range(60)}
    (source / "model.safetensors").write_bytes(safetensors(tensors))
    aged(source)
    done = []

    def fail_late(event):
        done.append(event)
        if isinstance(event, BlobDone) and len(done) > 4:
            raise FullError

    request = ImportRequest(ModelName.parse("m"), source)
    with pytest.raises(FullError):
        import_model(request, plan_import(request, store), store, fail_late)
    store.close()

    _, events = create(store, source)

    (planned,) = [event for event in events if isinstance(event, Planned)]
    assert 0 < planned.present < 60
    assert verify(store).findings == ()


def test_rehash_mends_notes_of_a_source_that_changed_without_a_trace(store, source, tmp_path):
    path = source / "model.safetensors"
    before = path.read_bytes()
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / path.name).write_bytes(before)

    def made(directory, **options):  # each time as in another process
        with contextlib.closing(Store(store.layout.root)) as fresh:
            return create(fresh, directory, **options)[0].digest

    old = made(source)
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    aged(source)
    seen = path.stat()
    an_hour = 3600 * 10**9
    with contextlib.closing(sqlite3.connect(store.layout.memo)) as database:
        identity = (seen.st_ino, max(seen.st_mtime_ns, seen.st_ctime_ns), os.fsencode(path))
        database.execute("UPDATE source SET inode = ?, changed_ns = ? WHERE path = ?", identity)
        for table in ("source", "piece"):
            database.execute(f"UPDATE {table} SET looked_ns = looked_ns + {an_hour}")
        database.commit()
    assert made(source) == old

    new = made(source, rehash=True)
    made(copy)  # the old blobs are known to be good again

    assert new != old
    assert made(source) == new


def of_one_matrix(directory, dtype, bits):
    directory.mkdir()
    shape = [32, len(bits) * 8 // BITS[dtype] // 32]
    (directory / "model.safetensors").write_bytes(
        safetensors({"a.weight": (dtype, shape, bits)})
    )
    return directory


@pytest.mark.parametrize(
    ("quantize", "first", "second"),
    [
        ("mxfp8", "F16", "BF16"),
        ("nvfp4", "F16", "BF16"),
        ("mxfp4", "BF16", "F16"),
        ("int4", "F8_E4M3", "F8_E5M2"),
        ("f16", "BF16", "F16"),
        ("bf16", "F16", "BF16"),
    ],
)
def test_equal_bits_of_another_dtype_have_another_blob(
    store, tmp_path, quantize, first, second
):
    """Their header may be the same: it tells what they became, not what they were."""
    bits = random.Random(1).choices(range(0x30, 0x3C), k=1 << 12)
    asked = parse_options(quantize)
    create(store, of_one_matrix(tmp_path / "one", first, bytes(bits)), "one", recipe=asked)
    other = of_one_matrix(tmp_path / "two", second, bytes(bits))

    (again, *_), (alone, *_) = (
        create(where, other, "two", recipe=asked)[0].written
        for where in (store, Store(tmp_path / "fresh"))
    )

    assert again.ref == alone.ref


def test_what_was_allowed_once_is_not_allowed_for_ever(store, tmp_path):
    nan = b"\xff\xff\xff\xff" * (1 << 11)
    source = aged(of_one_matrix(tmp_path / "nan", "F32", nan))
    create(store, source, recipe=parse_options("int4", allow_nonfinite=True))

    with pytest.raises(InputError, match="NaN"):
        create(store, source, recipe=parse_options("int4"))


def test_a_plain_blob_is_reused_whatever_is_allowed(store, source):
    create(store, source)

    result, _ = create(store, source, recipe=parse_options(allow_nonfinite=True))

    assert result.tally(CommitOutcome.NEW)[0] == 1  # the configuration


def test_what_each_member_of_a_group_was_decides_its_blob(store, tmp_path):
    """Copied and rounded members may change places and leave header and bytes the same."""
    data = random.Random(8).randbytes(2 * 32 * 64)

    def of_dtypes(*dtypes):
        source = tmp_path / "-".join(dtypes)
        source.mkdir()
        members = {
            f"layers.0.mlp.experts.{number}.up_proj.weight": (dtype, [32, 64], data)
            for number, dtype in enumerate(dtypes)
        }
        (source / "model.safetensors").write_bytes(safetensors(members))
        return source

    recipe = parse_options("bf16")
    create(store, of_dtypes("BF16", "F16"), recipe=recipe)
    other = of_dtypes("F16", "BF16")

    (again, *_), (alone, *_) = (
        create(where, other, recipe=recipe)[0].written
        for where in (store, Store(tmp_path / "fresh"))
    )

    assert again.ref == alone.ref
