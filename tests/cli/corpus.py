"""How a bad input is judged: one clean error in the right words, and nothing written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.check_store import check_store, snapshot
from tests.cli.runner import run


@dataclass(frozen=True, slots=True)
class Judge:
    """Two stores to run a command on.

    Attributes:
        store: where there is none yet, and must be none after a refusal.
        filled: one with models, which must stay as it is.
    """

    store: Path
    filled: Path

    def refused(self, *words, code, exit_code=3, say=()):
        """Judge that the command refuses, as JSON and in words.

        Args:
            words: the command's.
            code: of the error.
            exit_code: of the process.
            say: what the message must hold, a text or several.
        """
        before = snapshot(self.filled)
        told = run(*words, "--json", store=self.store)
        error = told.clean().error
        assert (error["code"], told.code, told.stdout) == (code, exit_code, ""), error
        for word in (say,) if isinstance(say, str) else say:
            assert word in error["message"], error["message"]
        assert not self.store.exists(), sorted(self.store.rglob("*"))

        run(*words, store=self.filled).failed(exit_code)
        assert snapshot(self.filled) == before
        return error

    def accepted(self, source, *words):
        """Judge that a source is imported; give the outcome."""
        outcome = run("create", "x", source, *words, "--json", store=self.store).succeeded()
        assert outcome.stderr == ""
        assert check_store(self.store) == []
        run("verify", "x", "--source", source, store=self.store).succeeded()
        return outcome
