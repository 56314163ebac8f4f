"""What a user asks for in the way of types, and the recipe that it makes for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from importer.codecs.spec import Downcast, QuantSpec, Target, parse_target
from importer.recipes.recipe import FLOATS, PLAIN, Misaligned, Recipe, Rule
from importer.recipes.toml_file import RecipeTemplate, read_recipe
from importer.sources.classification import Classification
from store import limits
from store.errors import UsageError
from store.text import is_printable, printable

_DEFAULT: Final = "default"
_DOWNCAST: Final = "downcast"
_MATRIX: Final = (2,)

_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "vision": ("*vision*", "*visual*"),
    "lm-head": ("*lm_head", "output", "embed_out", "*.embed_out"),
    "embedding": ("*embed*", "*wte", "*wpe", "shared", "*.shared", "*/shared"),
}
"""The tensors of a role, which FFAI's converter has, too.

The first decides: GPT-NeoX calls its output layer `embed_out`, and a tower has embeddings.
"""


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """What was asked for, checked as far as that goes without a model.

    Attributes:
        target: the type of `-q`, or None.
        group_size: of that type, or None for its own.
        base: the recipe, or None where nothing but `rules` was asked for.
        rules: of the user, which go before the recipe's.
        misaligned: in place of what the recipe says, or None.
    """

    target: Target = None
    group_size: int | None = None
    base: RecipeTemplate | None = None
    rules: tuple[Rule, ...] = ()
    misaligned: Misaligned | None = None
    stacked: bool | None = None
    allow_nonfinite: bool = False

    def resolve(self, facts: Classification) -> Recipe:
        """Give the recipe for a model.

        Raises:
            UsageError: the parts do not go together.
        """
        if self.base is None:
            recipe = PLAIN
        else:
            names = [name for name in (facts.architecture, facts.family) if name]
            known = {"architecture": names, "kind": [str(facts.kind)]}
            recipe = self.base.resolve(self.target, self.group_size, known)
        if self.rules:
            name = recipe.name if self.base else "rules"
            recipe = replace(recipe, name=name, rules=(*self.rules, *recipe.rules))
        return replace(
            recipe,
            misaligned=self.misaligned or recipe.misaligned,
            stacked=recipe.stacked if self.stacked is None else self.stacked,
            allow_nonfinite=self.allow_nonfinite or recipe.allow_nonfinite,
        )


def ask(  # noqa: PLR0913 - as many as there are flags
    quantize: str | None = None,
    *,
    group_size: int | None = None,
    recipe: str | None = None,
    rules: Sequence[str] = (),
    roles: Mapping[str, str | None] | None = None,
    misaligned: Misaligned | None = None,
    stacked: bool | None = None,
    allow_nonfinite: bool = False,
) -> QuantizeOptions:
    """Read what was asked for, as it is spelled on a command line.

    Args:
        quantize: a type, such as `int4`.
        recipe: a preset's name, or the path of a file.
        rules: each `GLOB=TYPE[/GROUP]`.
        roles: `embedding`, `lm-head`, `vision` -> type.

    Raises:
        UsageError: a word that is none, or words that do not go together.
        NotFoundError: there is no such recipe.
        InputError: the file is no recipe.
    """
    target = parse_target(quantize) if quantize is not None else None
    if quantize is not None and target is None:
        message = "`-q keep` asks for what happens without it"
        raise UsageError(message, code="E_USAGE", hint="Leave `-q` out")
    usual = _DOWNCAST if isinstance(target, Downcast) else _DEFAULT
    group_size = _group_size(quantize or "", target, group_size)
    base = read_recipe(recipe or usual) if recipe or target else None
    if base is not None:
        target = _target(base, target)
    _check_group_size(base, target, group_size)
    own = [_rule(text) for text in rules]
    wanted = {} if roles is None else roles
    own += [_role(role, text) for role in _ROLES if (text := wanted.get(role)) is not None]
    return QuantizeOptions(
        target, group_size, base, tuple(own), misaligned, stacked, allow_nonfinite
    )


def _target(base: RecipeTemplate, target: Target) -> Target:
    if base.asks:
        target = target or (parse_target(base.type) if base.type else None)
        if target is None:
            raise UsageError(
                f"recipe `{base.name}` needs a type",
                code="E_USAGE",
                hint=f"Say which: `-q int4 --recipe {base.name}`",
            )
        return target
    if target is not None:
        raise UsageError(
            f"recipe `{base.name}` names every type itself",
            code="E_USAGE",
            hint="Leave `-q` out",
        )
    return None


def _group_size(quantize: str, target: Target, group_size: int | None) -> int | None:
    # `int4/32` asks for groups of 32, whatever the recipe says.
    if "/" not in quantize or not isinstance(target, QuantSpec):
        return group_size
    if group_size is not None and group_size != target.group_size:
        message = f"`-q {printable(quantize)}` and `--group-size {group_size}`"
        raise UsageError(message, code="E_USAGE", hint="Say one of them")
    return target.group_size if target.has_bias else None


def _check_group_size(
    base: RecipeTemplate | None, target: Target, group_size: int | None
) -> None:
    if group_size is None:
        return
    if target is None and (base is None or base.group_size is None):
        message = "`--group-size` is that of the type which `-q` names"
        raise UsageError(message, code="E_USAGE", hint="For a rule, write `GLOB=int4/64`")
    if isinstance(target, Downcast):
        message = f"{target} has no groups, so no `--group-size`"
        raise UsageError(message, code="E_USAGE")
    if isinstance(target, QuantSpec) and not target.has_bias:
        message = f"{target} has groups of {target.group_size} alone, so no `--group-size`"
        raise UsageError(message, code="E_QUANT_GROUP")
    spec = target if isinstance(target, QuantSpec) else parse_target("int4")
    assert isinstance(spec, QuantSpec)
    parse_target(f"{spec.name}/{group_size}")


def _rule(text: str) -> Rule:
    glob, equals, wanted = text.rpartition("=")
    if not (equals and glob):
        raise UsageError(
            f"rule `{printable(text)}`, expected GLOB=TYPE",
            code="E_RULE",
            hint="Such as --rule '*.v_proj=int8/64' or --rule 'lm_head=keep'",
        )
    if not is_printable(glob) or len(glob) > limits.TENSOR_NAME_BYTES:
        # It would be in the model's recipe, which has to be text.
        raise UsageError(
            f"rule `{printable(text)}` matches no tensor: names are printable and have at most "
            f"{limits.TENSOR_NAME_BYTES} bytes",
            code="E_RULE",
        )
    return Rule((glob,), parse_target(wanted), "asked for by --rule")


def _role(role: str, text: str) -> Rule:
    # What is too small for groups stays: a tower has norms and biases, too.
    target = parse_target(text)
    ndim = _MATRIX if isinstance(target, QuantSpec) else ()
    globs = _ROLES[role]
    if ndim:
        globs = tuple(f"{glob.removesuffix('*')}*.weight" for glob in globs if "*" in glob[-1:])
        globs += tuple(f"{glob}.weight" for glob in _ROLES[role] if not glob.endswith("*"))
    dtype = FLOATS if isinstance(target, Downcast) else ()
    return Rule(globs, target, f"asked for by --{role}", ndim, dtype)
