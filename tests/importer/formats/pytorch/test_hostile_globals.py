"""Pickles that name what could run, a row each: refused by name, and nothing is executed."""

from __future__ import annotations

import os
import pickle
import sys

import pytest

from importer.formats.pytorch.checkpoint import read_checkpoint
from store.errors import IngotError
from tests.importer.formats.pytorch.builders import checkpoint, mapping, pickled, stream, text


def read(data):
    return read_checkpoint("`x.bin`", len(data), lambda start, end: data[start:end])


def call(module, name, *arguments):
    """A pickle that calls a function with strings, when it is loaded."""
    given = b"".join(map(text, arguments))
    return f"c{module}\n{name}\n".encode() + b"(" + given + b"tR"


GLOBALS = [
    ("os", "system", "touch CANARY"),
    ("posix", "system", "touch CANARY"),
    ("nt", "system", "touch CANARY"),
    ("builtins", "eval", "open('CANARY', 'w')"),
    ("builtins", "exec", "open('CANARY', 'w')"),
    ("builtins", "open", "CANARY", "w"),
    ("builtins", "getattr", "x", "y"),
    ("builtins", "__import__", "antigravity"),
    ("__builtin__", "eval", "open('CANARY', 'w')"),
    ("builtins", "print", "x"),
    ("builtins", "type", "x"),
    ("subprocess", "Popen", "touch CANARY"),
    ("subprocess", "check_output", "touch CANARY"),
    ("importlib", "import_module", "antigravity"),
    ("runpy", "run_path", "CANARY"),
    ("webbrowser", "open", "file:///"),
    ("pip", "main", "install"),
    ("torch", "load", "CANARY"),
    ("torch.hub", "load", "x", "y"),
    ("torch.serialization", "load", "CANARY"),
    ("torch.storage", "_load_from_bytes", "CANARY"),
    ("torch.jit.unsupported_tensor_ops", "execWrapper", "open('CANARY', 'w')"),
    ("torch._utils", "_rebuild_tensor_v2.__globals__", "x"),
    ("numpy.core.multiarray", "_reconstruct", "x"),
    ("numpy.core.multiarray", "scalar", "x"),
    ("numpy._core.multiarray", "scalar", "x"),
    ("numpy", "dtype", "f4"),
    ("numpy.testing._private.utils", "runstring", "open('CANARY', 'w')"),
    ("functools", "partial", "x"),
    ("operator", "attrgetter", "system"),
    ("operator", "methodcaller", "system"),
    ("_codecs", "encode", "x"),
    ("codecs", "decode", "x"),
    ("argparse", "Namespace"),
    ("collections", "defaultdict"),
    ("collections", "OrderedDict.fromkeys", "x"),
    ("copyreg", "_reconstructor", "x"),
    ("copy_reg", "_reconstructor", "x"),
    ("io", "open", "CANARY", "w"),
    ("shutil", "rmtree", "CANARY"),
    ("ctypes", "CDLL", "x"),
    ("pickle", "loads", "x"),
    ("_pickle", "loads", "x"),
    ("marshal", "loads", "x"),
    ("types", "CodeType", "x"),
    ("sys", "exit", "x"),
    ("socket", "socket"),
    ("transformers.training_args", "TrainingArguments"),
    ("pytorch_lightning.callbacks", "ModelCheckpoint"),
    ("torch.nn.modules.linear", "Linear"),
    ("os.path", "join", "x"),
    # What scanners of pickles list, each a way to run what it is given.
    ("_operator", "attrgetter", "system"),
    ("asyncio.unix_events", "_UnixSubprocessTransport._start", "touch CANARY"),
    ("bdb", "Bdb.run", "open('CANARY', 'w')"),
    ("cProfile", "run", "open('CANARY', 'w')"),
    ("cloudpickle.cloudpickle", "_make_function", "x"),
    ("code", "InteractiveInterpreter.runcode", "x"),
    ("dill._dill", "_create_function", "x"),
    ("doctest", "debug_script", "open('CANARY', 'w')"),
    ("ensurepip", "_run_pip", "x"),
    ("joblib.numpy_pickle", "NumpyArrayWrapper"),
    ("logging.config", "listen"),
    ("multiprocessing.util", "spawnv_passfds", "x"),
    ("pdb", "run", "open('CANARY', 'w')"),
    ("profile", "run", "open('CANARY', 'w')"),
    ("pty", "spawn", "CANARY"),
    ("pydoc", "pipepager", "x", "touch CANARY"),
    ("timeit", "timeit", "open('CANARY', 'w')"),
    ("trace", "Trace.run", "open('CANARY', 'w')"),
    ("urllib.request", "urlopen", "file:///"),
    ("venv", "create", "CANARY"),
    ("torch._dynamo.guards", "GuardBuilder.get", "open('CANARY', 'w')"),
    ("torch._inductor.codecache", "compile_file", "CANARY"),
    ("torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression", "x"),
    ("torch.utils._config_module", "ConfigModule.load_config", "x"),
    ("torch.utils.bottleneck.__main__", "run_cprofile", "x"),
    ("torch.utils.collect_env", "run", "touch CANARY"),
    # Names that are near to those of weights.
    ("Torch", "FloatStorage"),
    ("torch", "FloatStorage.__init__"),
    ("torch", "floatStorage"),
    ("torch.cuda", "Size"),
    ("torch._C", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_tensor_v4"),
    ("torch._utils", "_import_dotted_name", "os.system"),
    ("torch.storage", "FloatStorage"),
    ("torch.storage", "TypedStorage"),
    ("torch", "__builtins__"),
    ("collections", "OrderedDict.__reduce__"),
]


@pytest.mark.parametrize("make", [checkpoint, stream])
@pytest.mark.parametrize("row", GLOBALS, ids=lambda row: f"{row[0]}.{row[1]}")
def test_no_other_global_is_called(tmp_path, monkeypatch, make, row):
    monkeypatch.chdir(tmp_path)
    value = call(*row)
    if row[1] == "system":
        # What a reader that runs pickles would do, were this one not to refuse.
        assert row[0].encode() in value
    before = set(sys.modules)

    with pytest.raises(IngotError) as caught:
        read(make(mapping(w=value)))

    assert (caught.value.code, caught.value.exit_code) == ("E_PT_GLOBAL", 3)
    assert f"`{row[0]}.{row[1]}`" in str(caught.value)
    assert "x.bin" in str(caught.value)
    assert os.listdir(tmp_path) == []
    assert not (set(sys.modules) - before) & {"antigravity", "torch", "ctypes", "runpy"}


@pytest.mark.parametrize("rest", [b"", b"\x85", b"\xee", b"R", b"b", b"0"])
def test_what_comes_before_a_mistake_is_not_run(tmp_path, monkeypatch, rest):
    monkeypatch.chdir(tmp_path)
    value = call("posix", "system", "touch CANARY") + rest

    with pytest.raises(IngotError, match=r"posix\.system"):
        read(checkpoint(value))

    assert os.listdir(tmp_path) == []


def test_the_canary_would_sing(tmp_path, monkeypatch):
    """The corpus is not tame: the module `pickle` runs it."""
    monkeypatch.chdir(tmp_path)

    pickle.loads(pickled(call("posix", "system", "touch CANARY")))

    assert os.listdir(tmp_path) == ["CANARY"]
