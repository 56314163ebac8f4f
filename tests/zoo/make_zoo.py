"""Write the zoo: a tiny checkpoint of each architecture, by the libraries that write real ones.

    python tests/zoo/make_zoo.py [--only NAME] DIR

Weights are random, from a seed of the specimen's name; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import io
import json
import os
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import diffusers
import tokenizers
import torch
import transformers
from diffusers.pipelines.stable_diffusion import safety_checker
from transformers.quantizers import AutoHfQuantizer

from tests.zoo.language_models import LANGUAGE_MODELS
from tests.zoo.multimodal_models import MULTIMODAL_MODELS
from tests.zoo.other_models import OTHER_MODELS
from tests.zoo.pipelines import PIPELINES
from tests.zoo.specimens import Config, Model, Part, Pipeline

ZOO: Final[Mapping[str, Model | Pipeline]] = (
    LANGUAGE_MODELS | MULTIMODAL_MODELS | OTHER_MODELS | PIPELINES
)

PLAIN: Final = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def make(name: str, specimen: Model | Pipeline, directory: Path) -> None:
    """Write a specimen into a directory, which is made; weights are those of its name."""
    torch.set_num_threads(1)
    torch.manual_seed(zlib.crc32(name.encode()))
    directory.mkdir(parents=True)
    with _silence():
        if isinstance(specimen, Pipeline):
            _save_pipeline(specimen, directory)
        else:
            _save_model(specimen, directory)
        for extra in specimen.extras:
            EXTRAS[extra](directory)


def _save_model(specimen: Model, directory: Path) -> None:
    model = _build(specimen.architecture, specimen.config)
    if specimen.quantizer is not None:
        _quantize(model, *specimen.quantizer)
    _randomize(model)
    options: dict[str, Any] = {}
    if specimen.shard is not None:
        options["max_shard_size"] = specimen.shard
    if not specimen.original:
        options["save_original_format"] = False
    for variant in specimen.saved:
        _convert(model, specimen, variant)
        model.save_pretrained(directory, variant=variant, **options)


def _save_pipeline(specimen: Pipeline, directory: Path) -> None:
    parts: dict[str, Any] = {}
    for name, part in specimen.parts.items():
        if isinstance(part, list):
            parts[name] = [_build_part(one) for one in part]
        else:
            parts[name] = part and _build_part(part)
    cls = getattr(diffusers, specimen.architecture)
    if issubclass(cls, diffusers.ModularPipeline):
        pipeline = cls()
        pipeline.update_components(**parts)
    else:
        pipeline = cls(**parts)
    modules = {
        name: part
        for name, part in pipeline.components.items()
        if isinstance(part, torch.nn.Module)
    }
    for module in modules.values():
        _randomize(module)
    options = {} if specimen.shard is None else {"max_shard_size": specimen.shard}
    for number, variant in enumerate(specimen.saved):
        for module in modules.values():
            _convert(module, specimen, variant)
        if number and specimen.variant_parts:
            for name in specimen.variant_parts:
                modules[name].save_pretrained(directory / name, variant=variant, **options)
        else:
            pipeline.save_pretrained(str(directory), variant=variant, **options)


def _build_part(part: Part) -> Any:
    return _build(part.architecture, part.config)


def _build(architecture: str, config: Config) -> Any:
    libraries = (transformers, diffusers, safety_checker)
    found = next(one for one in libraries if hasattr(one, architecture))
    cls = getattr(found, architecture)
    if hasattr(cls, "config_class"):
        return cls(cls.config_class(**config))
    return cls(**config)


def _quantize(model: transformers.PreTrainedModel, name: str, arguments: Config) -> None:
    config = getattr(transformers, name)(**arguments)
    quantizer = AutoHfQuantizer.from_config(config, pre_quantized=True)
    quantizer.preprocess_model(model)
    model.to_empty(device="cpu")
    model.config.quantization_config = config
    model.hf_quantizer = quantizer


@torch.no_grad()
def _randomize(module: torch.nn.Module) -> None:
    # Fresh norms and biases are all ones and zeros: two that were swapped would look right.
    for tensor in module.state_dict().values():
        if tensor.is_floating_point():
            tensor.copy_(torch.randn(tensor.shape))
        elif tensor.dtype == torch.uint8:
            tensor.random_()


def _convert(module: torch.nn.Module, specimen: Model | Pipeline, variant: str | None) -> None:
    dtype = torch.float16 if variant == "fp16" else getattr(torch, specimen.dtype)
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.dtype in PLAIN:
            tensor.data = tensor.data.to(dtype)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in specimen.float32):
            # Random again: a float32 that was rounded to 16 bits has half of its bits zero.
            tensor.data = torch.randn(tensor.shape)


def _tokenizer(directory: Path) -> None:
    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "iron": 3, "ore": 4}
    model = tokenizers.models.WordLevel(words, unk_token="<pad>")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(model),
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        chat_template="{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}",
    ).save_pretrained(directory)


def _image_processor(directory: Path) -> None:
    transformers.CLIPImageProcessorPil().save_pretrained(directory)


def _audio_features(directory: Path) -> None:
    transformers.WhisperFeatureExtractor(feature_size=8).save_pretrained(directory)


def _card(directory: Path) -> None:
    """Write what a repository on the Hub has beside its model."""
    _write(directory / "README.md", "---\nlicense: mit\n---\n# Iron\n")
    _write(directory / "LICENSE", "Do what you like.\n")
    _write(directory / ".gitattributes", "*.safetensors filter=lfs\n")
    _write(directory / "assets/notes.txt", "Not ASCII: \u00e9\u4e16\r\n")
    _write(directory / "LICENSES/MIT.txt", "Of a part.\n")


def _trainer(directory: Path) -> None:
    """Write what a checkpoint in the middle of a training has beside its model."""
    layer = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(4)).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), directory / "optimizer.pt")
    torch.save({"last_epoch": 1}, directory / "scheduler.pt")
    torch.save({"cpu": torch.get_rng_state()}, directory / "rng_state.pth")
    torch.save({"seed": 42}, directory / "training_args.bin")
    _write(directory / "trainer_state.json", '{"best_metric": null, "loss": NaN}')


def _formats(directory: Path) -> None:
    """Write weights in other formats, as old repositories have them."""
    torch.save({"weight": torch.ones(4)}, directory / "pytorch_model.bin")
    index = {"metadata": {}, "weight_map": {"weight": "pytorch_model.bin"}}
    _write(directory / "pytorch_model.bin.index.json", json.dumps(index))
    for name in ("tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model-Q4_0.gguf"):
        _write(directory / name, "not really")
    _write(directory / "onnx/model.onnx", "not really")
    _write(directory / "onnx/config.json", "{}")
    _write(directory / "openvino/openvino_model.xml", "<net/>")


def _hidden(directory: Path) -> None:
    """Write what `hf download --local-dir` leaves."""
    _write(directory / ".cache/huggingface/download/config.json.metadata", "0\n")
    _write(directory / ".cache/huggingface/CACHEDIR.TAG", "Signature\n")


def _vocabulary(directory: Path) -> None:
    """Write the tokenizer as versions before 5 did."""
    _write(directory / "tokenizer/vocab.json", '{"a": 0, "b</w>": 1}')
    _write(directory / "tokenizer/merges.txt", "#version: 0.2\na b</w>\n")
    _write(directory / "tokenizer/special_tokens_map.json", '{"bos_token": "a"}')


def _single_file(directory: Path) -> None:
    """Write the whole pipeline a second time, as one file in the layout of its authors."""
    import safetensors.torch

    weights = {"model.diffusion_model.out.0.weight": torch.randn(8)}
    safetensors.torch.save_file(weights, directory / "sd_xl_base_1.0.safetensors")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


EXTRAS: Final[Mapping[str, Callable[[Path], None]]] = {
    "tokenizer": _tokenizer,
    "image-processor": _image_processor,
    "audio-features": _audio_features,
    "card": _card,
    "trainer": _trainer,
    "formats": _formats,
    "hidden": _hidden,
    "vocabulary": _vocabulary,
    "single-file": _single_file,
}


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    # Both libraries have much to say of sizes and tokens that no real model would have.
    for library in (transformers, diffusers):
        library.logging.set_verbosity(library.logging.CRITICAL)
        library.logging.disable_progress_bar()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("--only", choices=sorted(ZOO), metavar="NAME")
    arguments = parser.parse_args()
    for name in [arguments.only] if arguments.only else ZOO:
        make(name, ZOO[name], arguments.directory / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
