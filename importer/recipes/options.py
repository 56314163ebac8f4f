"""What a user asks for, and the recipe that it makes for a model."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from importer.codecs.spec import (
    CAST_DTYPES,
    DECODE,
    REPACK,
    REQUESTABLE,
    Change,
    FloatType,
    QuantSpec,
    Target,
    parse_target,
)
from importer.recipes.calibrate import (
    NOTHING,
    Calibrate,
    by_importance,
    check_used,
    parse_calibrate,
)
from importer.recipes.recipe import PLAIN, Misaligned, Recipe
from importer.recipes.rule import Origin, Rule
from importer.recipes.runtimes import STACKED_ONLY
from importer.recipes.toml_file import RecipeTemplate, presets, read_recipe
from store import limits
from store.errors import UsageError
from store.text import is_printable, printable

_DEFAULT: Final = "default"
_DOWNCAST: Final = "downcast"
_MATRIX: Final = (2,)
RULES_ALONE: Final = "rules"
"""The name of a recipe that is nothing but the user's rules."""

ROLES: Final[Mapping[Origin, tuple[str, ...]]] = {
    Origin.VISION: ("*vision*", "*visual*", "vpm.*", "*.vpm.*"),
    Origin.LM_HEAD: ("*lm_head", "output", "embed_out", "*.embed_out"),
    Origin.EMBEDDING: ("*embed*", "*wte", "*wpe", "shared", "*.shared", "*/shared"),
}
"""The tensors of a role, in the order in which roles decide.

GPT-NeoX calls its output layer `embed_out`, and a vision tower has embeddings.
"""
_REASONS: Final[Mapping[Origin, str]] = {
    Origin.RULE: "asked for by a rule",
    Origin.VISION: "asked for the vision tower",
    Origin.LM_HEAD: "asked for the output layer",
    Origin.EMBEDDING: "asked for the embeddings",
}


class ModelFacts(Protocol):
    """What the conditions of a recipe ask about a model; each is empty where unknown."""

    @property
    def architecture(self) -> str:
        """The class that the configuration names."""

    @property
    def family(self) -> str:
        """The configuration's `model_type`."""

    @property
    def kind(self) -> str:
        """`model`, `pipeline` or `sentence`."""

    @property
    def format(self) -> str:
        """The key of the format of the weights."""


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """What was asked for, checked as far as that is possible without a model.

    Attributes:
        target: the requested type, or None.
        group_size: of that type, or None for its own.
        base: the recipe, or None where nothing but `rules` was asked for.
        rules: of the user, which go before the recipe's.
        misaligned: in place of what the recipe says, or None.
        stacked: whether to stack experts, in place of what the recipe says, or None.
        allow_nonfinite: whether NaN and infinities may be quantized whatever the recipe says.
        calibrate: how scales are found where a rule does not say.
    """

    target: Target = None
    group_size: int | None = None
    base: RecipeTemplate | None = None
    rules: tuple[Rule, ...] = ()
    misaligned: Misaligned | None = None
    stacked: bool | None = None
    allow_nonfinite: bool = False
    calibrate: Calibrate = NOTHING

    def resolve(self, facts: ModelFacts) -> Recipe:
        """Return the recipe for a model.

        Experts are stacked without a word of the user's where the recipe says so, and where
        Ollama's loader of the architecture wants that.

        The user's rules are not put before a recipe that begins with them: one that was
        recorded with a model has them already, and the copy could decide nothing.

        Raises:
            UsageError: the parts do not go together.
        """
        if self.base is None:
            recipe = PLAIN
        else:
            names = [name for name in (facts.architecture, facts.family) if name]
            known = {
                "architecture": names,
                "class": names[:1],
                "kind": [str(facts.kind)],
                "format": [facts.format],
            }
            recipe = self.base.resolve(self.target, self.group_size, known, self.calibrate)
        wanted = self.calibrate.or_else(self.base.calibrate if self.base else NOTHING)
        own = tuple(replace(rule, target=wanted.apply(rule.target)) for rule in self.rules)
        if recipe.rules[: len(own)] != own:
            name = recipe.name if self.base else RULES_ALONE
            recipe = replace(recipe, name=name, rules=(*own, *recipe.rules))
        usual = recipe.stacked or (facts.architecture or facts.family) in STACKED_ONLY
        return replace(
            recipe,
            misaligned=self.misaligned or recipe.misaligned,
            stacked=usual if self.stacked is None else self.stacked,
            allow_nonfinite=self.allow_nonfinite or recipe.allow_nonfinite,
        )


def parse_options(  # noqa: PLR0913 - as many as there are options
    quantize: str | None = None,
    *,
    group_size: int | None = None,
    recipe: str | None = None,
    rules: Sequence[str] = (),
    roles: Mapping[str, str | None] | None = None,
    misaligned: Misaligned | None = None,
    stacked: bool | None = None,
    allow_nonfinite: bool = False,
    calibrate: str | None = None,
    symmetric: bool | None = None,
    has_imatrix: bool = False,
    chooses: bool = False,
) -> QuantizeOptions:
    """Read what was asked for, each option as it is spelled on a command line.

    Args:
        quantize: a type, such as `int4` or `int4/64`.
        group_size: of that type.
        recipe: a preset's name, or the path of a file.
        rules: each `GLOB=TYPE[/GROUP]`.
        roles: `embedding`, `lm-head`, `vision` -> type.
        misaligned: see `QuantizeOptions`, as `stacked` and `allow_nonfinite`.
        calibrate: the name of a method.
        symmetric: see `Calibration`.
        has_imatrix: whether there is an importance matrix, which searches for scales go by.
        chooses: whether a budget chooses the types that the recipe leaves open.

    Raises:
        UsageError: a word is not what it should be, or the words do not go together.
        NotFoundError: there is no such recipe.
        InputError: the file is not a recipe.
    """
    if quantize in presets() and quantize not in REQUESTABLE:  # `repack` is both
        raise UsageError(
            f"`{quantize}` is a recipe, expected a type",
            code="E_QUANT_RECIPE",
            facts={"recipe": quantize},
        )
    target = parse_target(quantize, REQUESTABLE) if quantize is not None else None
    if quantize is not None and target is None:
        message = "the requested type is `keep`, which is what happens without one"
        raise UsageError(message, code="E_QUANT_KEEP")
    if target == DECODE:
        message = "the requested type is `decode`, expected the float type: f32, bf16 or f16"
        raise UsageError(message, code="E_QUANT_TYPE")
    usual = _DOWNCAST if isinstance(target, FloatType) else _DEFAULT
    if target == REPACK:
        usual = REPACK.name
    base = read_recipe(recipe or usual) if recipe or target else None
    if base is not None and not base.asks and target is not None:
        _check_same_type(base, target)
        quantize = target = None
    group_size = _group_size(quantize or "", target, group_size)
    if base is not None and base.asks and not chooses:
        target = target or _type_of(base, recipe or usual)
    _check_group_size(base, target, group_size)
    own = [parse_rule(text) for text in rules]
    wanted = {} if roles is None else roles
    own += [parse_role(role, text) for role in ROLES if (text := wanted.get(role)) is not None]
    calibration = parse_calibrate(calibrate, symmetric=symmetric)
    if has_imatrix:
        if target is None and base is None and not own:
            raise UsageError(
                "an importance matrix weighs how values are quantized, expected a type such "
                "as `int4`",
                code="E_IMATRIX_TYPE",
            )
        calibration = by_importance(calibration)
    if base is None or target is not None:  # the types of a recipe are its own
        check_used(calibration, [target, *(rule.target for rule in own)])
    asked = target, group_size, base, tuple(own)
    return QuantizeOptions(*asked, misaligned, stacked, allow_nonfinite, calibration)


def parse_rule(text: str) -> Rule:
    """Read a rule of the user's: `GLOB=TYPE[/GROUP]`.

    Raises:
        UsageError: the text is not a rule.
    """
    glob, equals, wanted = text.rpartition("=")
    if not (equals and glob):
        raise UsageError(f"rule `{printable(text)}`, expected GLOB=TYPE", code="E_RULE")
    if not is_printable(glob) or len(glob) > limits.TENSOR_NAME_BYTES:
        # It would be in the model's recipe, which has to be text.
        raise UsageError(
            f"rule `{printable(text)}` matches no tensor: names are printable and have at most "
            f"{limits.TENSOR_NAME_BYTES} bytes",
            code="E_RULE",
        )
    reason = _REASONS[Origin.RULE]
    return Rule((glob,), parse_target(wanted), reason, origin=Origin.RULE)


def parse_role(role: Origin, text: str) -> Rule:
    """Make the rule that gives the tensors of a role a type.

    Raises:
        UsageError: the text is not a type.
    """
    # What is too small for groups stays: a tower has norms and biases, too.
    target = parse_target(text)
    ndim = _MATRIX if isinstance(target, QuantSpec) else ()
    globs = ROLES[role]
    if ndim:
        globs = tuple(f"{glob.removesuffix('*')}*.weight" for glob in globs if "*" in glob[-1:])
        globs += tuple(f"{glob}.weight" for glob in ROLES[role] if not glob.endswith("*"))
    dtype = CAST_DTYPES if isinstance(target, FloatType) else ()
    return Rule(globs, target, _REASONS[role], ndim, dtype, origin=role)


def _check_same_type(base: RecipeTemplate, target: Target) -> None:
    # Its own type may be said once more: the recipe of a model that is there already names
    # what was asked for.
    if not base.type or parse_target(base.type) != target:
        message = f"recipe `{printable(base.name)}` names every type itself"
        raise UsageError(message, code="E_RECIPE_TYPED")


def _type_of(base: RecipeTemplate, asked: str) -> Target:
    if target := parse_target(base.type) if base.type else None:
        return target
    message = f"recipe `{printable(base.name)}` needs a type"
    facts = {"recipe": shlex.quote(printable(asked))}
    raise UsageError(message, code="E_RECIPE_TYPE", facts=facts)


def _group_size(quantize: str, target: Target, group_size: int | None) -> int | None:
    # `int4/32` asks for groups of 32, whatever the recipe says.
    if "/" not in quantize or not isinstance(target, QuantSpec):
        return group_size
    if group_size is not None and group_size != target.group_size:
        raise UsageError(
            f"the type `{printable(quantize)}` names groups of {target.group_size}, and the "
            f"group size is {group_size}",
            code="E_GROUP_TWICE",
            facts={"type": target.name, "group_size": group_size},
        )
    return target.group_size if target.has_bias else None


def _check_group_size(
    base: RecipeTemplate | None, target: Target, group_size: int | None
) -> None:
    if group_size is None:
        return
    if target is None and (base is None or base.group_size is None):
        message = f"a group size of {group_size} without a type that it could belong to"
        raise UsageError(message, code="E_GROUP_UNUSED")
    if isinstance(target, FloatType | Change):
        message = f"{target} has no groups, and so no group size"
        raise UsageError(message, code="E_GROUP_FIXED")
    if isinstance(target, QuantSpec) and not target.has_bias:
        message = f"{target} in groups of {group_size}, expected {target.group_size}, no other"
        raise UsageError(message, code="E_GROUP_FIXED")
    spec = target if isinstance(target, QuantSpec) else parse_target("int4")
    assert isinstance(spec, QuantSpec)
    parse_target(f"{spec.name}/{group_size}")
