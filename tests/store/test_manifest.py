from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import limits
from store.blobs import BlobRef
from store.digest import Digest
from store.errors import IntegrityError
from store.manifest import CONFIG_MEDIA_TYPE, MEDIA_TYPE, Layer, Manifest, MediaType
from store.text import is_printable
from tests.strategies import manifests

HEX = "0" * 64
WHERE = "of `m`"


def layer(**changes):
    return {"mediaType": MediaType.JSON, "digest": f"sha256:{HEX}", "size": 1} | changes


def document(**changes):
    config = layer(mediaType=CONFIG_MEDIA_TYPE)
    whole = {"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": config, "layers": [layer()]}
    return json.dumps(whole | changes).encode()


def with_layer(**changes):
    return document(layers=[layer(**changes)])


def without(*path):
    whole = json.loads(document())
    *outer, last = path
    inner = whole
    for step in outer:
        inner = inner[step]
    del inner[last]
    return json.dumps(whole).encode()


# Numbers are the rows of reliability.md 3.2.
REFUSED = {
    "M01 empty": (b"", "E_MANIFEST"),
    "M01 blank": (b"\n", "E_MANIFEST"),
    "M01 zeros": (bytes(100), "E_MANIFEST"),
    "M01 torn": (document()[:-10], "E_MANIFEST"),
    "M02 trailing garbage": (document() + b"x", "E_MANIFEST"),
    "M02 two documents": (document() + document(), "E_MANIFEST"),
    "M03 duplicate layers": (document()[:-1] + b',"layers":[]}', "E_MANIFEST"),
    "M04 path as digest": (with_layer(digest="sha256:../../../../etc/passwd"), "E_DIGEST"),
    "M04 path in the configuration": (document(config=layer(digest="../../x")), "E_DIGEST"),
    "M05 capitals": (with_layer(digest=f"sha256:{'A' * 64}"), "E_DIGEST"),
    "M05 dash": (with_layer(digest=f"sha256-{HEX}"), "E_DIGEST"),
    "M05 63 digits": (with_layer(digest=f"sha256:{HEX[1:]}"), "E_DIGEST"),
    "M05 65 digits": (with_layer(digest=f"sha256:{HEX}0"), "E_DIGEST"),
    "M05 sha512": (with_layer(digest=f"sha512:{HEX}"), "E_DIGEST"),
    "M06 negative size": (with_layer(size=-5), "E_MANIFEST"),
    "M06 size 2^63": (with_layer(size=2**63), "E_MANIFEST"),
    "M06 size true": (with_layer(size=True), "E_MANIFEST"),
    "M06 size 1.5": (with_layer(size=1.5), "E_MANIFEST"),
    "M06 size as text": (with_layer(size="1"), "E_MANIFEST"),
    "list": (b"[]", "E_MANIFEST"),
    "null": (b"null", "E_MANIFEST"),
    "no configuration": (without("config"), "E_MANIFEST"),
    "no layers": (without("layers"), "E_MANIFEST"),
    "no schema": (without("schemaVersion"), "E_MANIFEST"),
    "media type is a number": (document(mediaType=5), "E_MANIFEST"),
    "media type is null": (document(mediaType=None), "E_MANIFEST"),
    "layers is an object": (document(layers={}), "E_MANIFEST"),
    "layer is a list": (document(layers=[[]]), "E_MANIFEST"),
    "layer without a digest": (without("layers", 0, "digest"), "E_MANIFEST"),
    "layer without a media type": (without("layers", 0, "mediaType"), "E_MANIFEST"),
    "layer without a size": (without("layers", 0, "size"), "E_MANIFEST"),
    "name is a number": (with_layer(name=1), "E_MANIFEST"),
    "dtype is a number": (with_layer(dtype=1), "E_MANIFEST"),
    "shape is a number": (with_layer(shape=1), "E_MANIFEST"),
    "shape is negative": (with_layer(shape=[-1]), "E_MANIFEST"),
    "shape holds true": (with_layer(shape=[True]), "E_MANIFEST"),
    "shape of rank 17": (with_layer(shape=[1] * 17), "E_MANIFEST"),
    "nested 1000 deep": (
        document(x=None)[:-5] + b"[" * 1000 + b"]" * 1000 + b"}",
        "E_MANIFEST",
    ),
}


@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED)
def test_a_malformed_manifest_is_refused(data, code):
    with pytest.raises(IntegrityError) as caught:
        Manifest.parse(data, WHERE)

    assert (caught.value.code, caught.value.exit_code) == (code, 5)


def test_m07_the_number_of_layers_is_limited(monkeypatch):
    monkeypatch.setattr(limits, "LAYERS", 10)

    Manifest.parse(document(layers=[layer()] * 10), WHERE)
    with pytest.raises(IntegrityError) as caught:
        Manifest.parse(document(layers=[layer()] * 11), WHERE)
    assert caught.value.code == "E_LIMIT"


def test_m07_a_manifest_of_40_mb_is_refused():
    with pytest.raises(IntegrityError) as caught:
        Manifest.parse(b" " * (40 << 20), WHERE)

    assert caught.value.code == "E_LIMIT"


@pytest.mark.parametrize(
    "changes",
    [
        {"schemaVersion": 1},
        {"schemaVersion": 3},
        {"mediaType": "application/vnd.oci.image.manifest.v1+json"},
        {"mediaType": ""},
    ],
)
def test_m08_an_unknown_schema_is_read_and_known_as_unknown(changes):
    assert not Manifest.parse(document(**changes), WHERE).is_supported


def test_our_schema_is_known():
    assert Manifest.parse(document(), WHERE).is_supported


@pytest.mark.parametrize("field", ["digest", "mediaType", "name", "size", "shape"])
def test_a_refusal_can_be_printed(field):
    with pytest.raises(IntegrityError) as caught:
        Manifest.parse(with_layer(**{field: ["\x1b[2J"]}), WHERE)

    assert is_printable(str(caught.value))


def test_a_refusal_of_a_digest_can_be_printed():
    with pytest.raises(IntegrityError) as caught:
        Manifest.parse(with_layer(digest="sha256:\x1b[2J"), WHERE)

    assert is_printable(str(caught.value))


@given(st.binary(max_size=60) | st.binary(max_size=9).map(lambda raw: document()[:50] + raw))
def test_parsing_is_total(data):
    refusal = ""
    try:
        Manifest.parse(data, WHERE)
    except IntegrityError as error:
        refusal = str(error)

    assert is_printable(refusal)


@given(manifests)
def test_a_manifest_reads_back_with_all_its_fields(manifest):
    assert Manifest.parse(manifest.to_bytes(), WHERE) == manifest


@given(manifests)
def test_a_manifest_that_we_wrote_keeps_its_bytes(manifest):
    data = manifest.to_bytes()

    assert Manifest.parse(data, WHERE).to_bytes() == data


def test_a_manifest_that_ollama_wrote_keeps_its_bytes():
    data = (
        b'{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json",'
        b'"config":{"mediaType":"application/vnd.docker.container.image.v1+json",'
        b'"digest":"sha256:%b","size":559},"layers":['
        b'{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%b","size":4661211424,'
        b'"from":"/root/.ollama/models/blobs/sha256-x"},'
        b'{"mediaType":"application/vnd.ollama.image.json","digest":"sha256:%b","size":12,'
        b'"name":"a\\u0026b.json"},'
        b'{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:%b","size":0}]}\n'
    ) % ((HEX.encode(),) * 4)

    assert Manifest.parse(data, WHERE).to_bytes() == data


def test_unknown_fields_are_kept():
    data = document(annotations={"a": [1, None]}, layers=[layer(urls=["x"])])

    found = Manifest.parse(data, WHERE)

    assert (found.other, found.layers[0].other) == (
        {"annotations": {"a": [1, None]}},
        {"urls": ["x"]},
    )


def test_a_layer_is_written_in_the_order_of_ollama_and_then_ours():
    whole = Layer(
        MediaType.TENSOR, Digest(HEX), 9, "w", "F32", (2, 1), {"x": 1, "from": "model"}
    )

    assert list(whole.to_json()) == [
        "mediaType",
        "digest",
        "size",
        "from",
        "name",
        "dtype",
        "shape",
        "x",
    ]


def test_empty_fields_of_a_layer_are_not_written():
    assert list(Layer(MediaType.PARAMS, Digest(HEX), 9).to_json()) == [
        "mediaType",
        "digest",
        "size",
    ]


def test_the_shape_of_a_scalar_is_written():
    assert Layer(MediaType.TENSOR, Digest(HEX), 9, "w", "F32", ()).to_json()["shape"] == []


def test_the_configuration_is_the_first_blob():
    config, first = Digest("1" * 64), Digest("2" * 64)
    manifest = Manifest(Layer(CONFIG_MEDIA_TYPE, config, 1), (Layer(MediaType.JSON, first, 2),))

    assert list(manifest.blobs) == [BlobRef(config, 1), BlobRef(first, 2)]


def test_a_blob_that_is_named_twice_is_counted_once():
    manifest = Manifest.parse(
        document(layers=[layer(size=5), layer(size=5, name="again")]), WHERE
    )

    assert manifest.nbytes == 1 + 5


@pytest.mark.parametrize(
    ("media_type", "name", "is_file"),
    [
        (MediaType.JSON, "config.json", True),
        (MediaType.OLD_CONFIG, "config.json", True),
        (MediaType.FILE, "merges.txt", True),
        (MediaType.LICENSE, "LICENSE", True),
        (MediaType.LICENSE, "", False),
        (MediaType.TENSOR, "w", False),
        (MediaType.TEMPLATE, "", False),
    ],
)
def test_a_layer_knows_whether_it_is_a_file(media_type, name, is_file):
    assert Layer(media_type, Digest(HEX), 1, name).is_file is is_file
