"""What goes wrong on the way has an exit code, and a message with what helps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from importer.events import silent
from importer.hub.fetch import fetched
from importer.hub.repository import HubClient
from importer.sources.location import HubRepository
from store.errors import IngotError, InputError, UsageError
from tests.hub.server import GOOD_TOKEN, Fault, sha256

pytestmark = pytest.mark.usefixtures("in_process")
API = "/api/models"
MODEL = HubRepository("org/model")


def failure(source=MODEL):
    with pytest.raises(IngotError) as caught, fetched(source, None, silent):
        pass
    return caught.value


def facts(error):
    return error.exit_code, error.code


@pytest.fixture
def model(hub, llama):
    """The hub, which has a model."""
    hub.add("org/model", llama)
    return hub


def test_a_missing_repository_is_not_found_with_a_token(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", GOOD_TOKEN)

    error = failure(HubRepository("org/none"))

    assert facts(error) == (9, "E_HUB_REPOSITORY")
    assert "`org/none`" in str(error)


@pytest.mark.parametrize("name", ["org/none", "org/private"])
def test_without_a_token_it_may_be_missing_or_private(model, llama, name):
    model.add("org/private", llama, private=True)

    error = failure(HubRepository(name))

    assert facts(error) == (11, "E_HUB_UNAUTHORIZED")
    assert "has no model repository" in str(error)
    assert "HF_TOKEN" in error.hint


@pytest.mark.parametrize("token", ["hf_wrongToken", "hf_wrong\x01Token"])
def test_a_wrong_token_is_refused_and_not_shown(hub, ingot, llama, token):
    hub.add("org/model", llama)

    run = ingot("create", "model", "hf:org/model", HF_TOKEN=token)

    assert run.code == 11
    assert "Token" not in run.out + run.err


def test_a_gated_repository_names_the_way_in(model, llama):
    model.add("org/gated", llama, gated=True)

    assert facts(failure(HubRepository("org/gated"))) == (11, "E_HUB_GATED")


@pytest.mark.usefixtures("model")
def test_a_missing_revision_is_not_found():
    assert facts(failure(HubRepository("org/model", "v2"))) == (9, "E_HUB_REVISION")


@pytest.mark.parametrize("place", [API, "/resolve/"])
def test_too_many_requests_say_when_to_come_back(model, place):
    model.faults.append(Fault(place, status=429, headers={"Retry-After": "7"}, times=None))

    error = failure()

    assert facts(error) == (10, "E_HUB_LIMIT")
    assert "in 7 seconds" in error.hint


def test_a_hub_that_is_down_is_the_networks_fault(model):
    model.faults.append(Fault(API, status=503, times=None))

    error = failure()

    assert facts(error) == (10, "E_HUB_UNREACHABLE")
    assert "503" in str(error)


def test_what_is_down_for_a_moment_is_asked_again(model, in_process, llama):
    model.faults.append(Fault("tokenizer.json", status=503))
    model.faults.append(Fault(sha256(llama["tokenizer.model"]), status=403))

    in_process.create(MODEL)


def test_a_list_of_files_for_later_is_not_worth_a_failure(model, in_process):
    model.page = 100
    model.faults.append(Fault("/tree/", status=429, spares=1, times=None))

    _, ours = in_process.create(MODEL)

    assert ours["hub"]["commit"] == model.repositories["org/model"].head


def test_a_connection_that_is_refused_names_the_host(hub, ingot):
    hub.stop()

    run = ingot("create", "model", "hf:org/model", "--json")

    assert (run.code, run.out) == (10, "")
    assert run.error["code"] == "E_HUB_UNREACHABLE"
    assert hub.url.removeprefix("http://") in run.error["message"]


def test_a_password_in_the_endpoint_is_not_shown(monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://user:secret@127.0.0.1:1")

    error = failure()

    assert error.exit_code == 10
    assert "`127.0.0.1:1`" in str(error)
    assert "secret" not in str(error) + error.hint


def test_a_hub_that_says_nothing_is_not_waited_for(model, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.2)
    model.faults.append(Fault(API, seconds=5, times=None))

    assert facts(failure()) == (10, "E_HUB_UNREACHABLE")


def test_a_hub_that_is_slow_to_begin_is_waited_for(model, in_process):
    model.faults.append(Fault("config.json", seconds=0.5))

    in_process.create(MODEL)


def test_offline_with_nothing_cached_is_not_found(ingot):
    run = ingot("create", "model", "hf:org/model", "--json", HF_HUB_OFFLINE="1")

    assert (run.code, run.error["code"]) == (9, "E_HUB_OFFLINE")


def test_what_is_no_hub_is_said_to_be_none(model):
    model.faults.append(Fault(API, status=200, times=None))

    assert facts(failure()) == (10, "E_HUB_ANSWER")


def test_without_weights_nothing_is_fetched(hub):
    hub.add("org/model", {"tf_model.h5": b"x", "config.json": b"{}"})

    assert facts(failure()) == (4, "E_FORMAT")
    assert hub.asked_for() == set()


def test_a_missing_shard_is_noticed_before_the_others_are_fetched(hub, llama):
    del llama["model-00002-of-00003.safetensors"]
    hub.add("org/model", llama)

    assert facts(failure()) == (3, "E_SRC_SHARD_MISSING")
    assert hub.asked_for() == {"model.safetensors.index.json"}


def test_an_unknown_variant_is_noticed_before_anything_is_fetched(model):
    with pytest.raises(UsageError) as caught, fetched(MODEL, "fp61", silent):
        pass

    assert caught.value.code == "E_SRC_VARIANT"
    assert model.asked_for() == set()


def test_what_does_not_fit_is_not_begun(model, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))

    assert facts(failure()) == (7, "E_NOSPACE")
    assert model.asked_for() == {"model.safetensors.index.json"}


def test_what_has_arrived_needs_no_space(hub, llama, monkeypatch):
    hub.add("org/model", {"model.safetensors": llama["model-00002-of-00003.safetensors"]})
    client = HubClient(MODEL)
    (file,) = client.listing().files
    client.part(file).parent.mkdir(parents=True)
    client.part(file).write_bytes(llama["model-00002-of-00003.safetensors"][:-500])
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))

    with fetched(MODEL, None, silent) as tree:
        assert [file.path for file in tree.files] == ["model.safetensors"]


def test_hostile_names_are_refused_before_anything_is_fetched(hub, ingot, llama):
    hub.add("org/model", llama | {"../../../.bashrc": b"evil"})

    run = ingot("create", "model", "hf:org/model", "--json")

    assert (run.code, run.error["code"]) == (3, "E_PATH")
    assert hub.asked_for() == set()


@pytest.mark.parametrize(
    "name",
    [
        "C:\\x",
        "a\\..\\b",
        "/etc/passwd",
        "a/../b",
        "a//b",
        "con",
        "a\x1b[31m",
        "x\u202etxt",
        ".hidden/../../x",
        "a" * 1100,
    ],
)
def test_unsafe_names_are_refused(hub, name):
    hub.add("org/model", {"model.safetensors": b"", name: b""})

    with pytest.raises(InputError) as caught:
        HubClient(HubRepository("org/model")).listing()

    assert caught.value.code == "E_PATH"
    assert str(caught.value).isprintable()
