"""Where models were made from: durable, private, and gone with the last name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from store.errors import is_exhausted
from store.fs import FileSystem
from store.gc import GarbageCollector
from store.origins import Origin
from store.store import Store
from store.verify import verify
from store.writer import BlobsGoneError
from tests.importer.damage import flip
from tests.store.builders import (
    CONFIG,
    ORIGIN,
    OTHER,
    create,
    digest_of,
    make_manifest,
    name,
    write_blobs,
)

DIGEST = digest_of(make_manifest().to_bytes())


def place(store, digest=DIGEST):
    return store.layout.origins / digest.file_name


def names(store):
    return {path.name for path in store.layout.origins.iterdir()}


def test_the_origin_of_a_model_is_known(store):
    create(store)

    assert store.origins.get(DIGEST) == ORIGIN


def test_the_origin_of_another_model_is_not_known(store):
    create(store)

    assert store.origins.get(digest_of(b"other")) is None


def test_the_origin_outlives_the_memo(tmp_path):
    with Store(tmp_path) as store:
        create(store)
    (tmp_path / "memo.sqlite").unlink()

    assert Store(tmp_path).origins.get(DIGEST) == ORIGIN


def test_an_origin_need_not_be_unicode(store):
    odd = Path(os.fsdecode(b"/models/caf\xe9\n"))
    create(store, origin=odd)

    assert store.origins.get(DIGEST) == odd


def test_a_relative_path_is_kept_as_what_it_means_now(store):
    create(store, origin=Path("here"))

    assert store.origins.get(DIGEST) == Path("here").absolute()


def test_nobody_else_may_read_an_origin(store):
    create(store)

    assert store.layout.origins.stat().st_mode & 0o777 == 0o700
    assert place(store).stat().st_mode & 0o777 == 0o600


def test_an_address_is_kept_as_it_is(store):
    create(store, origin="oci://ghcr.io/me/llama:int4")

    assert store.origins.get(DIGEST) == "oci://ghcr.io/me/llama:int4"


def test_an_address_is_noted_with_a_name(store):
    create(store, origin=None)
    with store.writing("copy") as writer:
        writer.copy(name(), name("copy"), Origin("oci://ghcr.io/me/llama:int4"))

    assert store.origins.get(DIGEST) == "oci://ghcr.io/me/llama:int4"
    assert place(store).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [b"", b"relative", b"/a\0", b"\0/a", b"oci:// ", b"oci://a\n", b"oci://\xe9", b"OCI://a"],
)
def test_a_damaged_origin_is_not_known(store, content):
    create(store)
    place(store).write_bytes(content)

    assert store.origins.get(DIGEST) is None


def test_what_is_not_a_file_is_not_known(store, tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"/models/m")
    os.symlink(tmp_path / "elsewhere", place(store))
    place(store, digest_of(b"other")).mkdir()

    assert store.origins.get(DIGEST) is None
    assert store.origins.get(digest_of(b"other")) is None


def test_a_store_without_origins_knows_none(store):
    shutil.rmtree(store.layout.origins)

    assert store.origins.get(DIGEST) is None
    assert list(store.origins.digests()) == []
    assert GarbageCollector(store).plan().is_empty


def test_the_last_import_decides(store):
    create(store)
    create(store, "again", origin=Path("/moved"))

    assert store.origins.get(DIGEST) == Path("/moved")


def test_a_model_without_an_origin_keeps_that_of_its_twin(store):
    create(store)
    create(store, "again", origin=None)

    assert store.origins.get(DIGEST) == ORIGIN


def test_the_configuration_is_kept_with_an_origin(store):
    create(store)

    assert place(store).read_bytes() == b"/models/m\0" + CONFIG
    assert store.origins.config(DIGEST, digest_of(CONFIG)) == CONFIG


def test_a_configuration_is_kept_where_no_place_is_known(store):
    with store.writing(name()) as writer:
        write_blobs(writer)
        writer.publish(name(), make_manifest(), Origin(config=CONFIG))

    assert store.origins.read(DIGEST) == Origin(None, CONFIG)


def test_a_copy_that_rotted_is_not_given(store):
    create(store)
    flip(place(store))

    assert store.origins.config(DIGEST, digest_of(CONFIG)) is None
    assert store.origins.get(DIGEST) == ORIGIN


def test_an_origin_of_an_earlier_version_has_no_configuration(store):
    create(store)
    place(store).write_bytes(b"/models/m")

    assert store.origins.read(DIGEST) == Origin(ORIGIN)
    assert store.origins.config(DIGEST, digest_of(CONFIG)) is None


def test_another_place_keeps_the_configuration(store):
    create(store)
    with store.writing("copy") as writer:
        writer.copy(name(), name("copy"), Origin("oci://ghcr.io/me/llama:int4"))

    assert store.origins.read(DIGEST) == Origin("oci://ghcr.io/me/llama:int4", CONFIG)


def test_a_configuration_completes_an_origin_of_an_earlier_version(store):
    create(store)
    place(store).write_bytes(b"/models/m")

    create(store, "again")

    assert store.origins.read(DIGEST) == Origin(ORIGIN, CONFIG)


def test_importing_again_writes_no_origin(store):
    create(store)
    before = place(store).stat()

    create(store, "again")

    after = place(store).stat()  # of another atime: it was read
    assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_a_configuration_of_megabytes_is_not_kept(store):
    config = b"{" + b" " * (1 << 20) + b"}"
    manifest = create(store, config=config)

    assert store.origins.read(digest_of(manifest.to_bytes())) == Origin(ORIGIN)


def test_an_origin_stays_until_gc(store):
    create(store)
    store.remove([name()])

    assert store.origins.get(DIGEST) == ORIGIN
    assert GarbageCollector(store).plan().origins == (DIGEST,)
    assert GarbageCollector(store).run().origins == (DIGEST,)
    assert names(store) == set()


def test_gc_keeps_what_a_name_needs(store):
    create(store)
    with store.writing("copy") as writer:
        writer.copy(name(), name("copy"))
    store.remove([name()])

    assert GarbageCollector(store).run().origins == ()
    assert store.origins.get(DIGEST) == ORIGIN


def test_gc_frees_the_origin_of_a_model_that_was_replaced(store):
    create(store)
    create(store, tensors=OTHER)

    assert GarbageCollector(store).run().origins == (DIGEST,)


def test_gc_frees_what_a_failed_publication_left(store):
    with store.writing(name()) as writer, pytest.raises(BlobsGoneError):
        writer.publish(name(), make_manifest(), Origin(ORIGIN))

    assert GarbageCollector(store).run().origins == (DIGEST,)
    assert names(store) == set()


def test_foreign_names_are_left_alone_and_noted(store):
    for foreign in ("sha256-x\x1b", ".DS_Store"):
        (store.layout.origins / foreign).write_bytes(b"")

    GarbageCollector(store).run()

    assert len(names(store)) == 2
    (note,) = verify(store).notes
    assert note.startswith("`origins/sha256-x")


class WithoutDescriptors(FileSystem):
    def open(self, path):
        raise OSError(24, "too many open files", str(path))


def test_a_process_without_descriptors_does_not_call_it_unknown(tmp_path):
    store = Store(tmp_path, WithoutDescriptors())

    with pytest.raises(OSError, match="too many") as caught:
        store.origins.get(DIGEST)
    assert is_exhausted(caught.value)
