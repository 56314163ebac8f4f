"""Load what ingot read with transformers: an export of it, and never the source itself."""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from importer.events import Listener, silent
from importer.exports.base import ExportOptions
from importer.exports.export import ExportRequest, export_model, plan_export
from importer.sources.document import CONFIG
from importer.sources.location import Source
from store import Store
from store.errors import UnsupportedError, in_words
from store.json import Json, JsonError, loads
from store.tensorfile import LENGTH_BYTES, header_length, parse_header
from store.text import printable

_NEEDED: Final = ("torch", "transformers")
_CONTEXT: Final = 512
_POOLING: Final = "1_Pooling/config.json"


class Setup(NamedTuple):
    """How models are run.

    Attributes:
        dtype: that they compute in: `F32`, `BF16` or `F16`.
        device: of torch: `cpu`, `cuda`, or empty for a GPU where there is one.
        threads: of torch.
    """

    dtype: str = "F32"
    device: str = ""
    threads: int = 1


class LoadedModel(NamedTuple):
    """A model that runs.

    Attributes:
        is_causal: whether it foresees tokens; else it is an encoder.
        context: tokens that it is given at once, at most, where nothing else is asked.
        pooling: of an encoder, what of the last hidden state is the embedding: `mean`, `cls`
            or `last`.
        fingerprint: tells it from others.
        name: as people are told it.
        tensors: names of its weights, as its files have them.
    """

    model: Any
    tokenizer: Any
    is_causal: bool
    context: int
    pooling: str
    device: str
    fingerprint: str
    name: str
    tensors: frozenset[str]


def check_installed() -> None:
    """Raise UnsupportedError where the packages of the extra are not installed."""
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        verdict = "neither is" if len(missing) > 1 else f"{_names(missing)} is not"
        raise UnsupportedError(
            f"running a model needs {_names(_NEEDED)}, and {verdict} installed",
            code="E_TORCH",
        )


def _names(packages: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in packages)


@contextlib.contextmanager
def loaded(
    source: Source, store: Store, setup: Setup, listen: Listener = silent
) -> Iterator[LoadedModel]:
    """Export a model into a temporary directory, and load it from there.

    Values are decoded to the dtype that is asked for. No code of the model's is run, and no
    pickle is read: the export has neither.

    Raises:
        IngotError: the source cannot be read, or transformers has no class for it.
    """
    check_installed()
    with tempfile.TemporaryDirectory(prefix="ingot-") as place:
        folder = Path(place) / "model"
        options = ExportOptions(dtype=setup.dtype)
        request = ExportRequest(source, folder, "hf", options, threads=setup.threads)
        planned = plan_export(request, store, listen)
        export_model(request, planned, store, listen)
        sizes = [(file.path, file.nbytes) for file in planned.write.files]
        yield _load(folder, str(source), setup, f"{source} {sizes}")


def _load(folder: Path, name: str, setup: Setup, fingerprint: str) -> LoadedModel:
    import torch  # noqa: PLC0415 - an extra
    import transformers  # noqa: PLC0415

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(setup.threads)
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    device = setup.device or ("cuda" if torch.cuda.is_available() else "cpu")
    kind, is_causal = _class(folder)
    dtypes = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safe)
        model = getattr(transformers, kind).from_pretrained(
            folder, dtype=dtypes[setup.dtype], use_safetensors=True, **safe
        )
        if hasattr(model, "set_experts_implementation"):
            # One matrix after the other, so that each product can be seen.
            model.set_experts_implementation("eager")
        model = model.to(device).eval()
    except Exception as error:  # theirs are of every kind
        said = in_words(error) if isinstance(error, OSError) else str(error)
        raise UnsupportedError(
            f"transformers {transformers.__version__} cannot load `{printable(name)}`: "
            f"{printable(said.strip().splitlines()[0] if said.strip() else 'no reason', 300)}",
            code="E_TRANSFORMERS",
        ) from error
    positions = getattr(model.config, "max_position_embeddings", None)
    context = min(_CONTEXT, positions) if isinstance(positions, int) else _CONTEXT
    return LoadedModel(
        model,
        tokenizer,
        is_causal,
        context,
        _pooling(folder),
        device,
        fingerprint,
        name,
        frozenset(_tensors(folder)),
    )


def _class(folder: Path) -> tuple[str, bool]:
    """Return the class of transformers that loads a model, and whether it foresees tokens."""
    from transformers.models.auto import modeling_auto as auto  # noqa: PLC0415 - an extra

    named = _document(folder / CONFIG).get("architectures")
    first = str(named[0]) if isinstance(named, list) and named else ""
    if first in set(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()):
        return "AutoModelForCausalLM", True
    if first in set(auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()):
        return "AutoModelForImageTextToText", True
    return "AutoModel", False


def _pooling(folder: Path) -> str:
    """Return what of the last hidden state a sentence model takes; the mean unless it says."""
    said = _document(folder / _POOLING)
    if said.get("pooling_mode_cls_token") is True:
        return "cls"
    return "last" if said.get("pooling_mode_lasttoken") is True else "mean"


def _tensors(folder: Path) -> Iterator[str]:
    for path in folder.glob("*.safetensors"):
        with path.open("rb") as file:
            length = header_length(file.read(LENGTH_BYTES), path.stat().st_size, path.name)
            header = parse_header(file.read(length), path.stat().st_size, path.name)
        yield from (entry.name for entry in header.entries)


def _document(path: Path) -> dict[str, Json]:
    try:
        found = loads(path.read_bytes(), floats=True)
    except (OSError, JsonError):
        return {}
    return found if isinstance(found, dict) else {}
