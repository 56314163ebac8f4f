"""`--json` prints what docs/schemas/ says; `Outcome.document` checks all other tests."""

from __future__ import annotations

import copy
import re

import pytest
from jsonschema import Draft202012Validator

from tests.cli.runner import COMMANDS
from tests.importer.builders import REPOSITORY
from tests.schemas import closed, corpus, written

QUIET = {"help", "completion"}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    return list(corpus(tmp_path_factory.mktemp("corpus")))


@pytest.mark.parametrize("name", written())
def test_a_schema_is_one(name):
    schema = written()[name]

    Draft202012Validator.check_schema(schema)
    assert schema["title"] == f"ingot.{name}/1"


def test_everything_that_is_printed_has_a_schema_and_no_field_that_it_lacks(printed):
    checks = {name: Draft202012Validator(closed(one)) for name, one in written().items()}

    found = [
        (one.schema, one.kind, next(iter(checks[one.schema].iter_errors(one.document))).message)
        for one in printed
        if not checks[one.schema].is_valid(one.document)
    ]

    assert found == []


def test_a_document_that_lacks_a_field_is_not_valid(printed):
    for one in printed:
        check = Draft202012Validator(written()[one.schema])
        if one.schema == "event":
            continue
        without = copy.deepcopy(one.document)
        del without["schema"]
        assert not check.is_valid(without)


def test_every_command_and_every_schema_that_the_code_names_is_there():
    code = "".join(path.read_text() for path in (REPOSITORY / "cli").rglob("*.py"))
    code += (REPOSITORY / "importer" / "sync" / "lock.py").read_text()
    named = set(re.findall(r'out_json\(\s*"(\w+)"', code))
    named |= set(re.findall(r'"ingot\.(\w+)/1"', code))

    assert set(COMMANDS) - QUIET <= named
    assert named == written().keys()
