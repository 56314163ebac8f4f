"""Archives are read strictly: by other programs' own, and by what is made to deceive."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.formats.tar import END, header_of, padding_of, read_entries
from store.errors import InputError

FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


def entries(data):
    return list(read_entries(lambda at, n: data[at : at + n], len(data), "x.tar"))


def archive(*members, kind=tarfile.PAX_FORMAT):
    """An archive of Python's own library; a member is a name, a content, and fields."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=kind) as tar:
        for name, content, *fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in dict(*fields).items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
def test_what_another_program_writes_is_read(kind):
    long = "a" * 90 + "/" + "b" * 60
    data = archive(
        ("d/", b"", {"type": tarfile.DIRTYPE}),
        ("./a", b"hello"),
        ("empty", b""),
        (long, b"x" * 513),
        ("last", b"y" * 512),
        kind=kind,
    )

    found = [(one.path, data[one.offset :][: one.nbytes]) for one in entries(data)]

    assert found == [("a", b"hello"), ("empty", b""), (long, b"x" * 513), ("last", b"y" * 512)]


def test_what_we_write_another_program_reads():
    content = b"z" * 700
    data = b"".join(
        (
            header_of("d/", 0, is_directory=True),
            header_of("d/a", len(content)),
            content + bytes(padding_of(len(content))),
            END,
        )
    )

    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
        assert [one.name for one in members] == ["d", "d/a"]
        assert tar.extractfile("d/a").read() == content
        assert {(one.mtime, one.uid, one.gid, one.uname) for one in members} == {(0, 0, 0, "")}


@pytest.mark.parametrize("nbytes", [0, 8**11 - 1, 8**11, 2**62])
def test_any_size_fits_into_a_header(nbytes):
    block = header_of("a", nbytes)

    assert tarfile.TarInfo.frombuf(block, "ascii", "strict").size == nbytes
    with pytest.raises(InputError, match=r"expected|end mark"):
        list(
            read_entries(lambda at, n: block[at : at + n], len(block) + max(nbytes, 1) - 1, "x")
        )


HOSTILE = {
    "absolute": archive(("/etc/passwd", b"x")),
    "parent": archive(("../x", b"x")),
    "parent inside": archive(("blobs/../../x", b"x")),
    "dot": archive(("blobs/./x", b"x")),
    "windows": archive(("C:\\x", b"x")),
    "reserved": archive(("blobs/con", b"x")),
    "control": archive(("a\x1b[2J", b"x")),
    "symbolic link": archive(("a", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc"})),
    "hard link": archive(("a", b"", {"type": tarfile.LNKTYPE, "linkname": "b"})),
    "character device": archive(("a", b"", {"type": tarfile.CHRTYPE})),
    "block device": archive(("a", b"", {"type": tarfile.BLKTYPE})),
    "fifo": archive(("a", b"", {"type": tarfile.FIFOTYPE})),
    "sparse": archive(("a", b"", {"type": tarfile.GNUTYPE_SPARSE})),
    "unknown": archive(("a", b"", {"type": b"Z"})),
    "twice": archive(("a", b"x"), ("a", b"y")),
    "twice otherwise spelled": archive(("a", b"x"), ("./a", b"y")),
    "a directory outside": archive(("../d/", b"", {"type": tarfile.DIRTYPE})),
    "pax path": archive(("a", b"x", {"pax_headers": {"path": "../../x"}})),
    "pax size": archive(("a", b"x", {"pax_headers": {"size": str(2**62)}})),
    "pax size of words": archive(("a", b"x", {"pax_headers": {"size": "-1"}})),
    "pax sparse": archive(("a", b"x", {"pax_headers": {"GNU.sparse.major": "1"}})),
    "cut in a file": archive(("a", b"x" * 5000))[:1024],
    "cut in a header": archive(("a", b"x"))[:100],
    "no end": archive(("a", b"x"))[:1024],
    "empty": b"",
    "no archive": b"not an archive" * 100,
    "long header": archive(("a" * 200_000, b"x"), kind=tarfile.GNU_FORMAT),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused(name):
    with pytest.raises(InputError) as refused:
        entries(HOSTILE[name])

    assert "\x1b" not in str(refused.value)


@given(st.binary(max_size=2000), st.integers(0, 4000))
def test_an_archive_that_is_changed_is_read_or_refused(noise, at):
    data = bytearray(archive(("a", b"hello"), ("b" * 120, b"x" * 600)))
    data[at : at + len(noise)] = noise
    try:
        found = entries(bytes(data))
    except InputError:
        return
    assert all(one.offset + one.nbytes <= len(data) for one in found)
