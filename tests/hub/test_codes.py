"""What fails of the Hub on the way of a transfer, as the command says it."""

from __future__ import annotations

import pytest

from tests.cli.codes.judge import judged
from tests.hub.server import Fault

pytestmark = pytest.mark.usefixtures("in_process")
SCENES = {
    "E_HUB_CUT": Fault("model-00001-of-00003.safetensors?signature", status=200, times=None),
    "E_HUB_DAMAGED": Fault("/resolve/", flip=7, times=None),
    "E_HUB_OFFLINE": None,
    "E_HUB_STORAGE": Fault("signature=x", status=403, times=None),
}
"""Code -> what fails, or None where nobody is asked."""


@pytest.mark.parametrize("code", SCENES)
def test_a_transfer(code, hub, llama, tmp_path, monkeypatch):
    hub.add("org/model", llama)
    monkeypatch.setattr("importer.http.ranges._FIRST_WAIT", 0.0)  # seconds, which grow
    if SCENES[code] is None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    else:
        hub.faults.append(SCENES[code])

    judged(code, "create", "x", "hf:org/model", store=tmp_path / "store")
