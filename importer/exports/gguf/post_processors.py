"""What a tokenizer.json puts around text, as far as llama.cpp's converter understands it.

Source: `SpecialVocab._try_load_from_tokenizer_json` in llama.cpp's gguf-py/gguf/vocab.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from importer.exports.gguf.documents import objects
from store.json import Json


class Processors:
    """Reads what is put around text, of the processors of a tokenizer.json.

    What they name is put into the configuration of the tokenizer, where that is silent.

    Attributes:
        ends: types of tokens that ended text until another one took the place.
    """

    def __init__(
        self, added: dict[str, bool], told: dict[str, Json], *, has_config: bool
    ) -> None:
        """Take what is known so far, to be changed.

        Args:
            added: whether a type's token is put around text.
            told: the tokenizer's configuration.
            has_config: whether there is one.
        """
        self.ends: list[str] = []
        self._added = added
        self._told = told
        self._has_config = has_config
        for kind, other in (("bos", "cls"), ("eos", "sep")):
            if has_config and not told.get(f"{kind}_token") and told.get(f"{other}_token"):
                told[f"{kind}_token"] = told[f"{other}_token"]
        self._first: dict[str, Json] = {
            kind: told.get(f"{kind}_token") for kind in ("bos", "cls", "eos", "sep")
        }

    def read(self, tokenizer: Mapping[str, Json]) -> None:
        """Read the processors of a tokenizer.json."""
        found = tokenizer.get("post_processor")
        if not isinstance(found, dict):
            return
        inner = found.get("processors")
        for one in objects(inner) if isinstance(inner, list) else [found]:
            kind = one.get("type")
            if kind == "ByteLevel":
                self._added.setdefault("bos", False)
                self._added.setdefault("eos", False)
            elif kind == "RobertaProcessing":
                self._read_roberta(one)
            elif kind == "TemplateProcessing":
                self._read_template(one)

    def _read_roberta(self, processor: Mapping[str, Json]) -> None:
        self._added |= {"bos": True, "eos": True, "sep": True}
        for kind, other in (("cls", "bos"), ("sep", "eos")):
            if self._has_config and not self._first[kind]:
                pair = processor.get(kind)
                found = pair[0] if isinstance(pair, list) and pair else self._first[other]
                self._say(kind, found)

    def _read_template(self, processor: Mapping[str, Json]) -> None:
        single, pair = (objects(processor.get(key)) for key in ("single", "pair"))
        first = last = None
        if len(single) > 1:
            first, last = _special(single[0]), _special(single[-1])
            if first:
                self._read_first(first)
            if last:
                self._read_last(last)
        if pair:
            self._read_pair(pair, first, last)

    def _read_first(self, token: str) -> None:
        known = self._first
        if not self._has_config:
            known["bos"] = token
        elif token not in (known["bos"], known["cls"]):
            for kind in ("bos", "cls"):
                if not known[kind]:
                    self._say(kind, token)
        self._added["bos"] = token in (known["bos"], known["cls"])

    def _read_last(self, token: str) -> None:
        known = self._first
        if not self._has_config:
            known["eos"] = token
        elif token != known["eos"]:
            free = [kind for kind in ("eot", "eom") if kind not in self.ends]
            if free:
                self.ends.append(free[0])
                self._told[f"{free[0]}_token"] = known["eos"]
            self._say("eos", token)
        self._added["eos"] = True

    def _read_pair(
        self, pair: Sequence[Mapping[str, Json]], first: str | None, last: str | None
    ) -> None:
        known = self._first
        start = 1 if first and _special(pair[0]) == first else 0
        stop = len(pair) - (1 if last and _special(pair[-1]) == last else 0)
        pair = pair[start:stop]
        if not pair or _sequence(pair[0]) != "A" or _sequence(pair[-1]) != "B":
            return
        between = pair[1:-1]
        if not between:
            return
        ends = (known["sep"], known["eos"])
        is_separated = False
        token = _special(between[0])
        if token and token in ends and not last:
            is_separated = True
        if len(between) == 2 and (token := _special(between[1])) and token in ends:  # noqa: PLR2004
            is_separated = True
        self._added["sep"] = is_separated
        if is_separated and not known["sep"] and self._has_config:
            self._told["sep_token"] = known["eos"]

    def _say(self, kind: str, token: Json) -> None:
        self._told[f"{kind}_token"] = self._first[kind] = token


def _special(part: Mapping[str, Json]) -> str | None:
    found = part.get("SpecialToken")
    name = found.get("id") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def _sequence(part: Mapping[str, Json]) -> Json:
    found = part.get("Sequence")
    return found.get("id") if isinstance(found, dict) else None
