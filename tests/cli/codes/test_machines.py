"""What fails on the way: a cluster, locks, disks, and the programs that run models."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
from types import ModuleType, SimpleNamespace

import pytest

from importer.events import BlobDone
from store.fs import FileSystem
from tests.cli.codes.judge import judged
from tests.importer.builders import MODELS, model, write

LLAMA = MODELS / "tiny-llama"
CREATE = ("create", "x", LLAMA, "-q", "int8")


def _no_scheduler(at):
    at.patch("importer.engine.cluster.connection._CONNECTING", 0.3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return *CREATE, "--scheduler", f"tcp://127.0.0.1:{free.getsockname()[1]}"


def _without_dask(at):
    at.patch("importer.engine.cluster.connection._has_dask", lambda: False)
    return *CREATE, "--scheduler", "tcp://there:1"


def _held(at):
    fs = FileSystem()
    held = fs.try_lock(at.store / "locks" / "store", exclusive=False)
    at.after.callback(fs.close, held)
    return "gc", "--yes", "--wait", "0.1"


def _locks_exclude_nobody(at):
    at.patch("store.lock.StoreLock.is_effective", lambda _: False)
    return "gc", "--yes"


def _lossy_disk(at):
    intact = FileSystem.write

    def lose(self, file, data):
        short = len(data) - (file.path.suffix == ".manifest")
        return intact(self, file, memoryview(data)[:short])

    at.patch("store.fs.FileSystem.write", lose)
    return CREATE


def _no_second_name(at):
    def refuse(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    at.patch("store.partials.Partials.link", refuse)
    return "cp", "kept", "--to", at.here / "other", "--link"


def _full_stdout(at):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    at.patch("cli.views.console._write_all", fail)
    return ("list",)


def _changing(at):
    source = model(at.here / "s", {f"{n}.weight": ("F32", (99,)) for n in range(9)})

    def listen(event):
        if isinstance(event, BlobDone):
            (source / "model.safetensors").touch()

    at.patch("cli.views.progress.listening", lambda *_: contextlib.nullcontext(listen))
    return "create", "x", source, "--jobs", "1"


SCENES = {
    "E_CLUSTER_ADDRESS": lambda _: (*CREATE, "--scheduler", "nonsense"),
    "E_CLUSTER_SCHEDULER": _no_scheduler,
    "E_CLUSTER_MISSING": _without_dask,
    "E_BUSY": _held,
    "E_LOCKS": _locks_exclude_nobody,
    "E_SHORT_WRITE": _lossy_disk,
    "E_LINK": _no_second_name,
    "E_SOURCE_CHANGED": _changing,
    "E_STDOUT": _full_stdout,
}
"""Code -> the command that it ends, after what was made to fail."""


def _fake(kind, is_causal):
    """What a model that nobody runs has."""
    tokens = (0, 1, 2) if kind == "a" else (0, 1, 3)

    def tokenizer(*_, **__):
        return {"input_ids": list(tokens)}

    tokenizer.bos_token_id = None
    return SimpleNamespace(tokenizer=tokenizer, is_causal=is_causal, context=8, name=kind)


def _models(at, *kinds):
    made = [_fake(name, kind) for name, kind in zip("ab", kinds, strict=True)]
    at.patch("importer.evaluation.models.check_installed", lambda: None)
    at.patch(
        "importer.evaluation.models.loaded",
        lambda source, *_: contextlib.nullcontext(made[str(source).endswith("moe")]),
    )
    text = write(at.here, {"text": "some words"}) / "text"
    return "eval", LLAMA, MODELS / "tiny-moe", "--text", text


def _no_class(at):
    """A transformers that refuses the model, as it does those that are newer than itself."""

    def refuse(*_, **__):
        raise ValueError("The checkpoint has model type `x` but Transformers does not know it")

    torch = ModuleType("torch")
    torch.float32 = torch.bfloat16 = torch.float16 = None
    torch.set_num_threads = torch.use_deterministic_algorithms = lambda *_, **__: None
    torch.cuda = SimpleNamespace(is_available=lambda: False)
    transformers, auto = ModuleType("transformers"), ModuleType("auto")
    quiet = SimpleNamespace(set_verbosity_error=bool, disable_progress_bar=bool)
    transformers.__version__, transformers.logging = "5.0", quiet
    transformers.AutoTokenizer = SimpleNamespace(from_pretrained=refuse)
    at.patch("importer.evaluation.models._class", lambda _: ("LlamaForCausalLM", True))
    for name, module in {"torch": torch, "transformers": transformers, "auto": auto}.items():
        at.monkeypatch.setitem(sys.modules, name, module)
    at.patch("importer.evaluation.models.check_installed", lambda: None)
    text = write(at.here, {"text": "some words"}) / "text"
    return "imatrix", LLAMA, "--text", text, "--output", at.here / "m.safetensors"


def _without_torch(at):
    at.patch("importer.evaluation.models._NEEDED", ("torch_of_nobody", "transformers"))
    text = write(at.here, {"text": "some words"}) / "text"
    return "eval", LLAMA, LLAMA, "--text", text


def _not_a_text(at):
    at.patch("importer.evaluation.models.check_installed", lambda: None)
    text = write(at.here, {"text": b"\xff"}) / "text"
    return "eval", LLAMA, LLAMA, "--text", text


RUNNING = {
    "E_TORCH": _without_torch,
    "E_TEXT": _not_a_text,
    "E_EVAL_KINDS": lambda at: _models(at, True, False),
    "E_EVAL_TOKENS": lambda at: _models(at, True, True),
    "E_TRANSFORMERS": _no_class,
}
"""Code -> a command that would run a model."""


@pytest.mark.parametrize("code", RUNNING)
def test_a_model_that_is_not_run(code, scene):
    words = RUNNING[code](scene)

    judged(code, *words, store=scene.store)


@pytest.mark.parametrize("code", SCENES)
def test_a_machine(code, scene):
    words = SCENES[code](scene)

    judged(code, *words, store=scene.store)
