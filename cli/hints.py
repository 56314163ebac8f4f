"""What helps against an error: the flags and commands that the rooms below cannot name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from store.errors import IngotError

_DAMAGED: Final = (
    "`ingot verify` shows what is damaged, and `ingot verify --repair` makes it again"
)

HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "E_ACCESS": "Give yourself the permission (`chmod`, `chown`), or run it as the "
        "user who has it",
        "E_ADAPTER": "An adapter is a directory of PEFT, made for this model",
        "E_ATTACHMENT": "Import the model as one directory of tensors first",
        "E_BLOB_DIGEST": _DAMAGED,
        "E_BLOB_KIND": _DAMAGED,
        "E_BLOB_MISSING": _DAMAGED,
        "E_BLOB_SIZE": _DAMAGED,
        "E_BUDGET_BITS": "Such as `--target-bpw 4.5`",
        "E_BUDGET_RECIPE": 'A rule leaves its type open with `type = "requested"`; without '
        "`--recipe` there are such rules",
        "E_BUDGET_SIZE": "`--target-size {least}` or `--target-bpw {bits}` can be met, and "
        "`--allow` with smaller types makes it less",
        "E_BUDGET_TWICE": "Give `--target-size` or `--target-bpw`",
        "E_BUDGET_TYPE": "Leave `-q` out; `--allow` names the types to choose from",
        "E_BUDGET_UNUSED": "`--{word}` belongs to `--target-size` and `--target-bpw`",
        "E_BUSY": "Run the command again when the other one is done, or give `ingot gc` more "
        "time with `--wait SECONDS`",
        "E_CALIBRATE": "`ingot help create` names the ways",
        "E_CALIBRATE_UNUSED": "`--{way}` belongs to the type that `-q` names, or to the types "
        "of a recipe",
        "E_CLUSTER_ADDRESS": "`dask scheduler` prints its address when it starts",
        "E_CLUSTER_DIED": "Look at the logs of the workers: most often they have too little "
        "memory; blobs that were made are kept: run the same command again",
        "E_CLUSTER_LOST": "Start the scheduler again and run the same command: blobs that were "
        "made are kept",
        "E_CLUSTER_MISSING": "`pip install '.[dask]'` in a clone of ingot, here and where the "
        "workers run",
        "E_CLUSTER_PATH": "What is read and written must be on file systems that every worker "
        "mounts under the same path",
        "E_CLUSTER_SCHEDULER": "Start one with `dask scheduler`, or look at the address and "
        "the firewall",
        "E_CLUSTER_VERSION": "Install the same versions on every machine of the cluster",
        "E_CLUSTER_WORKERS": "Start some with `dask worker ADDRESS`",
        "E_CONFIG": "Fetch the file again: it is damaged, or not the model's",
        "E_DIGEST": "`ingot verify` shows what is damaged",
        "E_DRAFT": "A draft is a directory of a model with `config.json` and safetensors files",
        "E_DTYPE": "Leave the tensor out: `--tensor GLOB` chooses others",
        "E_EXHAUSTED": "Use fewer `--jobs`",
        "E_EXPORT_EXPERTS": "`--to hf` keeps experts as they are",
        "E_EXPORT_FORMAT": "`--to hf` writes models of any architecture",
        "E_EXPORT_LOSSY": "Leave `--strict` out; `--dry-run` lists what is lost",
        "E_EXPORT_PLACE": "Name another place, outside of the store and the source",
        "E_EXPORT_SPLIT": "Take a larger `--split-max-size`",
        "E_EXPORT_TENSOR": "`--to hf` writes tensors of any name",
        "E_EVAL_KINDS": "`ingot diff` compares weights of any two models",
        "E_EVAL_TOKENS": "Compare models with one tokenizer, such as one before and after `-q`",
        "E_EXPORT_TYPE": "`--to gguf` has types such as Q4_K_M and Q8_0, `--to mlx` those of "
        "the store, `--to uqff` those of mistral.rs; `--dtype` gives every float a type",
        "E_FORMAT": "Import the original checkpoint, which is not packed",
        "E_GC_REFUSED": "gc must know every root: create that model again, or remove its name "
        "with `ingot rm`",
        "E_GGUF_CONFIG": "Fetch `config.json` again: it does not fit the weights",
        "E_GGUF_KIND": "Name the file with the model itself",
        "E_GGUF_LAYOUT": "Import the file whole: leave `-q`, recipes and `--unpack` out",
        "E_GGUF_MODEL": "Fetch the file again, or import it whole, without `-q`",
        "E_GGUF_SCALE": "Import the file whole: leave `-q`, recipes and `--unpack` out",
        "E_GROUP_FIXED": "Leave `--group-size` out",
        "E_GROUP_TWICE": "Give the group size once: `-q {type}/{group_size}`",
        "E_GROUP_UNUSED": "`--group-size` belongs to the type that `-q` names; for a rule, "
        "write `GLOB=int4/64`",
        "E_HISTORY_GONE": "Create the model again",
        "E_HUB_FILE": "Run the command again: it asks for the files anew",
        "E_HUB_OFFLINE": "Unset HF_HUB_OFFLINE, or fetch the model with `hf download` first",
        "E_HUB_STATUS": "Run the command again later: what has arrived is kept",
        "E_IMATRIX": "Measure it again: it is not what the programs that make them write",
        "E_EXPORT_IMATRIX": "Give the matrix that it was made with: `--imatrix FILE`",
        "E_IMATRIX_GONE": "Give the file with `--imatrix`, or take `imatrix` out of the recipe",
        "E_IMATRIX_SHAPE": "Measure an importance matrix of this very model",
        "E_IMATRIX_TYPE": "Name the type: `-q int4 --imatrix FILE`",
        "E_IMATRIX_UNUSED": "Measure one of this very model; `--calibrate mse` needs none",
        "E_IO": "Run it again; if it stays so, look at the disk (`dmesg`)",
        "E_JSON": _DAMAGED,
        "E_LAYOUT": "`ingot save` writes one, and so does `skopeo copy … oci:DIR`: make it "
        "again",
        "E_LAYOUT_NAME": "Say it: `ingot load SOURCE NAME`",
        "E_LIMIT": "The page on limits (docs/formats/limits.md) says what is refused, and why",
        "E_LINK": "Leave `--link` out: blobs are shared or copied then",
        "E_MANIFEST": "Remove the name with `ingot rm`, or create the model again",
        "E_MEMORY": "Use fewer `--jobs`",
        "E_MEMORY_LIMIT": "Allow more with `--max-memory`, such as 512M (a number alone is "
        "bytes), or leave it out",
        "E_MISALIGNED": "`--on-misaligned adjust` takes a smaller group, and "
        "`--on-misaligned keep` leaves the tensor as it is",
        "E_MODELFILE": "`ingot show NAME --modelfile` prints one that can be read",
        "E_MODELFILE_MISSING": "Check the path; `ingot show NAME --modelfile` prints one",
        "E_NAME": "Rename it: such a name is not safe on every system",
        "E_NAME_COLLISION": "Keep the latter: --rule '{quantized}=keep'",
        "E_NAME_TAKEN": "Choose another name, or leave `--no-clobber` out to replace the model",
        "E_TEXT": "Give plain text in UTF-8",
        "E_TORCH": "They come with an extra: `pip install '.[torch]'` in a clone of ingot",
        "E_TRANSFORMERS": "A newer transformers may know it; `ingot diff` compares tensors",
        "E_NOSPACE": "Free some space (`ingot gc` may help) and run the command again, or name "
        "another disk",
        "E_NOT_FOUND": "`ingot list` shows what there is",
        "E_NOT_ROUNDED": "Nothing was lost: every tensor has the type of its source",
        "E_NO_PART": "`ingot show NAME` lists what there is",
        "E_NO_REPORT": "Create the model again with `--report`",
        "E_NO_TENSOR": "`ingot show NAME --tensors` lists them",
        "E_NO_STORE": "`ingot create` makes one; `--store` or the variable INGOT_STORE names "
        "another",
        "E_ONLY_WHOLE": "Leave `-q`, `--recipe`, rules and `--unpack` out, or import the "
        "original checkpoint",
        "E_ONNX_GROUPS": "Import it as it is, without `-q`",
        "E_PIN": "Run the command again; if it stays so, look at the disk of the store",
        "E_PREQUANTIZED": "Import it as it is, without `-q`, `--recipe` and rules, or quantize "
        "the original checkpoint",
        "E_QUALITY": "Create the model again with `--report`",
        "E_QUANT_DTYPE": "Keep the tensor: `--rule 'NAME=keep'`",
        "E_QUANT_FORMAT": "Import the checkpoint that it was made of, or have the program that "
        "quantized it save decoded weights",
        "E_QUANT_GROUP": "Omit the group size to use the type's default",
        "E_QUANT_KEEP": "Leave `-q` out",
        "E_QUANT_NONFINITE": "Keep the tensor (`--rule '{tensor}=keep'`), or pass "
        "`--allow-nonfinite`",
        "E_QUANT_PAIR": "Fetch the files again: their parts do not belong together",
        "E_QUANT_RECIPE": "A recipe is named by `--recipe {recipe}`; `-q` is the type that it "
        "leaves open, if any",
        "E_QUANT_TYPE": "`ingot help create` lists the types",
        "E_READ_ONLY": "Mount it for writing, or name another place",
        "E_RECIPE": "`ingot show NAME --recipe` prints a recipe that can be read again",
        "E_RECIPE_TYPE": "Say which: `-q int4 --recipe {recipe}`",
        "E_RECIPE_TYPED": "Leave `-q` out",
        "E_REGISTRY_PLAIN": "Use https, or allow it with `--insecure`",
        "E_REGISTRY_PROXY": "HTTPS_PROXY, HTTP_PROXY and ALL_PROXY name one as "
        "`http://HOST:PORT`, and NO_PROXY hosts that need none",
        "E_REQUIRES": "Leave REQUIRES out of the Modelfile",
        "E_ROLE_UNUSED": "Leave `--{role}` out",
        "E_RULE": "Such as --rule '*.v_proj=int8/64' or --rule 'lm_head=keep'",
        "E_RULE_UNUSED": "Without the rule, `--dry-run --json` lists every name",
        "E_SENSITIVITY": "An object of names or globs, each with a number above 0, or what "
        "`mlx_lm.dynamic_quant` writes",
        "E_SHORT_WRITE": "Free some space, or look at the disk of the store",
        "E_SOURCE_CHANGED": "Run the command again when nothing else writes to the source",
        "E_SRC_CHANGED": "Name the source that the model was made from with `--source`",
        "E_SRC_TYPE": "A source is a directory or a file of weights, or a link to one",
        "E_SRC_VARIANT": "Leave `--variant` out, or name one that the source has",
        "E_SRC_VARIANTS": "Choose one with `--variant {variant}`",
        "E_STDOUT": "Look at where stdout goes: a full disk, or a closed pipe",
        "E_STORE_FOREIGN": "Name another directory with `--store`, or make a store of this one "
        "with `--init`",
        "E_STORE_OVERLAP": "Name another store with `--store`, or another source",
        "E_STORE_PATH": "Name a directory with `--store`, or leave it out for ~/.models",
        "E_STRICT": "Give them a rule (`--rule 'NAME=keep'`), or leave `--strict` out",
        "E_ST_CONTENT": "Fetch the file again",
        "E_ST_DTYPE": "Upgrade ingot, or save the model with another dtype",
        "E_ST_REFERENCE": "Save the file again with the safetensors library",
        "E_SYNC": "A model is a table `[[model]]` with `name`, `source`, and options of "
        "`ingot create`",
        "E_SYNC_LOCK": "Remove it: `ingot sync FILE` writes it again",
        "E_SYNC_LOCKED": "`ingot sync FILE` without `--locked` makes the models and writes the "
        "lock",
        "E_SYNC_MISSING": 'A list is a TOML file: `[[model]]`, `name = "llama"`, '
        '`source = "./Llama-3.2-1B"`',
        "E_TOKENIZER": "`--to hf` writes tokenizers as they are",
        "E_USAGE": "`ingot help COMMAND` explains the command",
        "E_VERSION": "Name another store with `--store`",
    }
)
"""By the code of the error; values in braces are facts that the error carries."""


_FAMILIES: Final = MappingProxyType(
    {
        "E_GGUF": "The file does not follow the GGUF format: fetch or convert it again",
        "E_ONNX": "The file does not follow the ONNX format: fetch or export it again",
        "E_PT": "The file is not a checkpoint of PyTorch that can be read: fetch it again, or "
        "save the weights as safetensors",
        "E_IMATRIX": "Measure one with `ingot imatrix` or llama-imatrix",
    }
)
"""By the beginning of the code: what helps where the code itself has no hint."""


def _written_elsewhere(error: IngotError) -> str:
    """Return what makes a type that is not the store's, where other programs have it."""
    if error.code != "E_QUANT_TYPE":
        return ""
    import re

    word = str(error.facts.get("type", ""))
    kinds = {"gguf": r"(i?q\d|tq\d)_\w{1,9}", "uqff": r"(afq|hqq)\d|q\dk"}
    for kind, pattern in kinds.items():
        if re.fullmatch(pattern, word, re.IGNORECASE | re.ASCII):
            return (
                f"; for {kind.upper()} there is `ingot export NAME DEST --to {kind} -q {word}`"
            )
    return ""


def hint_for(error: IngotError) -> str | None:
    """Return what helps against an error, or None where nothing is known to.

    The error's own hint goes first. One that lacks a fact which the table's hint names gets
    none: two errors may share a code, and only one of them be about that fact.
    """
    if error.hint is not None:
        return error.hint + _written_elsewhere(error)
    if error.code not in HINTS:
        return _FAMILIES.get("_".join(error.code.split("_")[:2]))
    try:
        return HINTS[error.code].format_map(error.facts)
    except KeyError:
        return None
