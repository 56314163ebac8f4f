"""Values that hypothesis makes: names, texts, documents, tensors; nasty ones among them."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from store.digest import Digest
from store.manifest import CONFIG_MEDIA_TYPE, Layer, Manifest, MediaType
from store.names import ModelName
from store.tensorfile import ITEM_BITS

_WORD = string.ascii_letters + string.digits + "_"
_DEVICES = {"con", "prn", "aux", "nul"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in range(10)
}

NASTY = (
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\x9b31m",
    "\x00",
    "\r\n",
    "\u202egnp.exe",
    "\u200b",
    "\u2028",
    "\ud800",
    "\udc80",
    "\U000e0041",
    "[red]",
    "../../etc/passwd",
    "C:\\con",
    "é",
    "e\u0301",
    "🦙",
    "<&>",
    '"',
    "\\",
    "",
)


def _is_no_device(part):
    return part.split(".")[0].lower() not in _DEVICES and not part.endswith(".")


def name_parts(more="", longest=80):
    """Parts of a model name."""
    rest = st.text(_WORD + "-" + more, max_size=longest - 1)
    return st.builds("".join, st.tuples(st.sampled_from(_WORD), rest)).filter(_is_no_device)


model_names = st.builds(
    ModelName,
    st.just("registry.ollama.ai") | name_parts(".:", 255),
    st.just("library") | name_parts(),
    name_parts("."),
    st.just("latest") | name_parts("."),
)

texts = st.text() | st.builds(
    "".join,
    st.lists(st.sampled_from(NASTY) | st.characters() | st.text(max_size=3), max_size=6),
)
"""Any text, lone surrogates and control characters included."""

clean_texts = st.text(st.characters(exclude_categories=["Cs"]))

json_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | clean_texts,
    lambda child: st.lists(child, max_size=4) | st.dictionaries(clean_texts, child, max_size=4),
    max_leaves=20,
)
"""What `store.json.dumps` writes: no floats."""

tensor_names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]),
    min_size=1,
    max_size=40,
).filter(lambda name: name != "__metadata__")

_WHOLE_BYTES = sorted(dtype for dtype, bits in ITEM_BITS.items() if bits % 8 == 0)


@st.composite
def tensors(draw):
    """A tensor as `encode_header` takes it: name, dtype, shape, bytes."""
    dtype = draw(st.sampled_from(_WHOLE_BYTES))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    nbytes = ITEM_BITS[dtype] // 8
    for dimension in shape:
        nbytes *= dimension
    return draw(tensor_names), dtype, shape, nbytes


tensor_lists = st.lists(tensors(), min_size=1, max_size=6, unique_by=lambda tensor: tensor[0])
metadata = st.dictionaries(clean_texts, clean_texts, max_size=3)

digests = st.binary(min_size=32, max_size=32).map(lambda raw: Digest(raw.hex()))

_unknown_fields = st.dictionaries(
    st.sampled_from(["from", "annotations", "urls", "x"]), json_documents, max_size=2
)
layers = st.builds(
    Layer,
    st.sampled_from(sorted(MediaType)) | clean_texts,
    digests,
    st.integers(0, 2**63 - 1),
    clean_texts,
    st.none() | st.sampled_from(sorted(ITEM_BITS)),
    st.none() | st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
    _unknown_fields,
)
manifests = st.builds(
    Manifest,
    layers.map(
        lambda layer: Layer(CONFIG_MEDIA_TYPE, layer.digest, layer.size, other=layer.other)
    ),
    st.lists(layers, max_size=4).map(tuple),
    other=st.dictionaries(
        st.sampled_from(["annotations", "subject"]), json_documents, max_size=2
    ),
)
