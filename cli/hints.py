"""What helps against an error: the flags and commands that the rooms below cannot name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from store.errors import IngotError

_DAMAGED: Final = "`ingot verify` shows what is damaged; creating the model again repairs it"

HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "E_ACCESS": "Give yourself the permission (`chmod`, `chown`), or run it as the "
        "user who has it",
        "E_BLOB_DIGEST": _DAMAGED,
        "E_BLOB_KIND": _DAMAGED,
        "E_BLOB_MISSING": _DAMAGED,
        "E_BLOB_SIZE": _DAMAGED,
        "E_BUSY": "Run the command again when the other one is done, or give `ingot gc` more "
        "time with `--wait SECONDS`",
        "E_CALIBRATE_UNUSED": "`--calibrate` and `--symmetric` belong to the type that `-q` "
        "names, or to the types of a recipe",
        "E_EXHAUSTED": "Use fewer `--jobs`",
        "E_EXPORT_LOSSY": "Leave `--strict` out; `--dry-run` lists what is lost",
        "E_EXPORT_TYPE": "`--to mlx` has the store's types, `--to uqff` those of mistral.rs; "
        "`--dtype` gives every float a type",
        "E_GC_REFUSED": "gc must know every root: create that model again, or remove its name "
        "with `ingot rm`",
        "E_GROUP_FIXED": "Leave `--group-size` out",
        "E_GROUP_TWICE": "Give the group size once: `-q {type}/{group_size}`",
        "E_GROUP_UNUSED": "`--group-size` belongs to the type that `-q` names; for a rule, "
        "write `GLOB=int4/64`",
        "E_HISTORY_GONE": "Create the model again",
        "E_MEMORY": "Use fewer `--jobs`",
        "E_MEMORY_LIMIT": "Allow more with `--max-memory`, such as 512M (a number alone is "
        "bytes), or leave it out",
        "E_MISALIGNED": "`--on-misaligned adjust` takes a smaller group, and "
        "`--on-misaligned keep` leaves the tensor as it is",
        "E_NAME_COLLISION": "Keep the latter: --rule '{quantized}=keep'",
        "E_NAME_TAKEN": "Choose another name, or leave `--no-clobber` out to replace the model",
        "E_NOSPACE": "Free some space (`ingot gc` may help) and run the command again, or name "
        "another disk with `--store`",
        "E_NO_REPORT": "Create the model again with `--report`",
        "E_NOT_FOUND": "`ingot list` shows what there is",
        "E_ONLY_WHOLE": "Leave `-q`, `--recipe`, rules and `--unpack` out, or import the "
        "original checkpoint",
        "E_PREQUANTIZED": "Import it as it is, without `-q`, `--recipe` and rules, or quantize "
        "the original checkpoint",
        "E_QUALITY": "Create the model again with `--report`",
        "E_QUANT_FORMAT": "Import the checkpoint that it was made of, or have the program that "
        "quantized it save decoded weights",
        "E_QUANT_KEEP": "Leave `-q` out",
        "E_QUANT_NONFINITE": "Keep the tensor (`--rule '{tensor}=keep'`), or pass "
        "`--allow-nonfinite`",
        "E_READ_ONLY": "Mount it for writing, or name another store with `--store`",
        "E_RECIPE": "`ingot show NAME --recipe` prints a recipe that can be read again",
        "E_RECIPE_TYPE": "Say which: `-q int4 --recipe {recipe}`",
        "E_RECIPE_TYPED": "Leave `-q` out",
        "E_ROLE_UNUSED": "Leave `--{role}` out",
        "E_RULE": "Such as --rule '*.v_proj=int8/64' or --rule 'lm_head=keep'",
        "E_RULE_UNUSED": "Without the rule, `--dry-run --json` lists every name",
        "E_SRC_VARIANT": "Leave `--variant` out, or name one that the source has",
        "E_SRC_VARIANTS": "Choose one with `--variant {variant}`",
        "E_NO_STORE": "`ingot create` makes one; `--store` or the variable INGOT_STORE names "
        "another",
        "E_STORE_FOREIGN": "Name another directory with `--store`, or make a store of this one "
        "with `--init`",
        "E_STORE_OVERLAP": "Name another store with `--store`, or another source",
        "E_SYNC": "A model is a table `[[model]]` with `name`, `source`, and options of "
        "`ingot create`",
        "E_SYNC_LOCK": "Remove it: `ingot sync FILE` writes it again",
        "E_SYNC_LOCKED": "`ingot sync FILE` without `--locked` makes and locks it",
        "E_SYNC_MISSING": "`ingot help sync` has an example",
        "E_STRICT": "Give them a rule (`--rule 'NAME=keep'`), or leave `--strict` out",
    }
)
"""By the code of the error; values in braces are facts that the error carries."""


def hint_for(error: IngotError) -> str | None:
    """Return what helps against an error, or None where nothing is known to.

    The error's own hint goes first. One that lacks a fact which the table's hint names gets
    none: two errors may share a code, and only one of them be about that fact.
    """
    if error.hint is not None or error.code not in HINTS:
        return error.hint
    try:
        return HINTS[error.code].format_map(error.facts)
    except KeyError:
        return None
