"""How Ollama talks to a model: the parser, the renderer and the capabilities of its `create`.

Ollama writes the prompt of a safetensors model with a renderer and reads its answer with a
parser, both built into the program and named in the model's configuration; without them
`/api/chat` sends the bare text of the last message. Which ones belong to a model, its
architecture and its chat template tell. The tables are those of Ollama 0.33
(`x/create/client/create.go`, `model/parsers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from importer.sources.document import Document
from store.json import Json


class ChatTemplates(NamedTuple):
    """The chat templates that the files of a model hold; each is empty where there is none.

    Attributes:
        tokenizer: the text `chat_template` of tokenizer_config.json.
        jinja: the whole of chat_template.jinja.
    """

    tokenizer: str = ""
    jinja: str = ""

    @property
    def chosen(self) -> str:
        """The one that Ollama looks at first."""
        return self.tokenizer or self.jinja


class Chat(NamedTuple):
    """What Ollama's configuration says of a model's conversations.

    Attributes:
        parser: the name of what reads answers, or empty.
        renderer: the name of what writes prompts, or empty.
        capabilities: what the model can do, in Ollama's words and order.
    """

    parser: str
    renderer: str
    capabilities: tuple[str, ...]


class Abilities(NamedTuple):
    """What a parser finds in an answer."""

    tools: bool
    thinking: bool


class _Line(NamedTuple):
    """Names of architectures, and the parser or renderer that they have.

    Attributes:
        words: parts of such names in lower case, of which one must be there.
        name: of the parser or renderer.
        newer: its name where a template has all `markers`; later releases changed both.
        markers: parts of a template.
        anywhere: whether chat_template.jinja counts, too, where it is not the template that
            Ollama looks at first.
    """

    words: tuple[str, ...]
    name: str
    newer: str = ""
    markers: tuple[str, ...] = ()
    anywhere: bool = False


_LAGUNA: Final = _Line(
    ("laguna",), "laguna", "poolside-v1", ("laguna_glm_thinking_v8",), anywhere=True
)
_COHERE: Final = _Line(("cohere2moe", "cohere2_moe"), "cohere")
_GLM: Final = _Line(("glm4", "glm-4"), "glm-4.7")
_DEEPSEEK: Final = _Line(("deepseek",), "deepseek3")
_GEMMA: Final = _Line(("gemma4",), "gemma4")
_NEMOTRON: Final = _Line(
    ("nemotronh", "nemotron_h"),
    "nemotron-3-nano",
    "nemotron-3.5-nano",
    ("{reasoning effort: efficient}",),
    anywhere=True,
)
_QWEN35: Final = ("qwen3_5", "qwen3next")
_QWEN38: Final = ("resolved_reasoning_effort", "preserve_thinking")
_GLIMMER: Final = "glimmer"

# The first line that has a word of the name decides; the orders are Ollama's, and differ.
_PARSERS: Final = (
    _LAGUNA, _COHERE, _GLM, _DEEPSEEK, _GEMMA,
    _Line(_QWEN35, "qwen3.5"),
    _Line(("qwen3",), "qwen3"),
    _NEMOTRON,
)  # fmt: skip
_RENDERERS: Final = (
    _LAGUNA, _COHERE, _GEMMA, _GLM, _DEEPSEEK,
    _Line(_QWEN35, "qwen3.5", "qwen3.8", _QWEN38),
    _Line(("qwen3",), "qwen3-coder"),
    _NEMOTRON,
)  # fmt: skip

PARSERS: Final[Mapping[str, Abilities]] = {
    "cogito": Abilities(tools=True, thinking=True),
    "cohere": Abilities(tools=True, thinking=True),
    "deepseek3": Abilities(tools=True, thinking=True),
    "functiongemma": Abilities(tools=True, thinking=False),
    "gemma4": Abilities(tools=True, thinking=True),
    "gemma4-no-thinking": Abilities(tools=True, thinking=False),
    "glimmer": Abilities(tools=True, thinking=True),
    "glm-4.7": Abilities(tools=True, thinking=True),
    "glm-ocr": Abilities(tools=True, thinking=False),
    "harmony": Abilities(tools=True, thinking=True),
    "laguna": Abilities(tools=True, thinking=True),
    "lfm2": Abilities(tools=True, thinking=False),
    "lfm2-thinking": Abilities(tools=True, thinking=True),
    "ministral": Abilities(tools=True, thinking=False),
    "nemotron-3-nano": Abilities(tools=True, thinking=True),
    "nemotron-3.5-nano": Abilities(tools=True, thinking=True),
    "olmo3": Abilities(tools=True, thinking=False),
    "olmo3-think": Abilities(tools=False, thinking=True),
    "ornith": Abilities(tools=True, thinking=True),
    "passthrough": Abilities(tools=False, thinking=False),
    "poolside-v1": Abilities(tools=True, thinking=True),
    "qwen3": Abilities(tools=True, thinking=False),
    "qwen3-coder": Abilities(tools=True, thinking=False),
    "qwen3-thinking": Abilities(tools=True, thinking=True),
    "qwen3-vl-instruct": Abilities(tools=True, thinking=False),
    "qwen3-vl-thinking": Abilities(tools=True, thinking=True),
    "qwen3.5": Abilities(tools=True, thinking=True),
}
"""Every parser that Ollama has."""

RENDERERS: Final = (
    "cogito", "cohere", "deepseek3.1", "functiongemma", "gemma4", "gemma4-large",
    "gemma4-small", "glimmer", "glm-4.7", "glm-ocr", "laguna", "lfm2", "lfm2-thinking",
    "nemotron-3-nano", "nemotron-3.5-nano", "olmo3", "olmo3-32b-think", "olmo3-think",
    "olmo3.1", "ornith", "poolside-v1", "qwen3-coder", "qwen3-vl-instruct",
    "qwen3-vl-thinking", "qwen3.5", "qwen3.8",
)  # fmt: skip
"""Every renderer that Ollama has."""
_NO_PARSER: Final = Abilities(tools=False, thinking=False)
_COMPLETION: Final = "completion"


def chat_of(config: Document, templates: ChatTemplates, parser: str = "") -> Chat:
    """Return what Ollama's `create` writes into the configuration of a model.

    Args:
        config: the model's config.json; empty where it has none.
        templates: that its files hold.
        parser: that was asked for, in place of the architecture's.
    """
    parser = parser or _named(_PARSERS, config, templates)
    renderer = _named(_RENDERERS, config, templates)
    return Chat(parser, renderer, tuple(_capabilities(config, templates, parser)))


def _named(lines: Iterable[_Line], config: Document, templates: ChatTemplates) -> str:
    return next(filter(None, (_name(lines, one, templates) for one in _types(config))), "")


def _name(lines: Iterable[_Line], architecture: str, templates: ChatTemplates) -> str:
    architecture = architecture.lower()
    if architecture.startswith("museglimmer") or architecture == "muse_glimmer":
        return _GLIMMER
    for line in lines:
        if any(word in architecture for word in line.words):
            texts = templates if line.anywhere else (templates.chosen,)
            is_newer = any(all(mark in text for mark in line.markers) for text in texts)
            return line.newer if line.newer and is_newer else line.name
    return ""


def _types(config: Document) -> tuple[str, ...]:
    """Return the names that tell the family; Ollama reads none where one is not text."""
    inner = config.get("llm_config")
    names = config.get("architectures")
    types = (
        config.get("model_type"),
        inner.get("model_type") if isinstance(inner, dict) else None,
    )
    listed = names if isinstance(names, list) else []
    is_read = (
        (names is None or isinstance(names, list))
        and (inner is None or isinstance(inner, dict))
        and all(one is None or isinstance(one, str) for one in (*listed, *types))
    )
    return tuple(filter(None, map(_text, (*listed, *types)))) if is_read else ()


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _capabilities(config: Document, templates: ChatTemplates, parser: str) -> Iterator[str]:
    abilities = PARSERS.get(parser, _NO_PARSER)
    yield _COMPLETION
    if config.get("vision_config") is not None or config.get("has_vision") is True:
        yield "vision"
    if any(config.get(key) is not None for key in ("audio_config", "sound_config")):
        yield "audio"
    if abilities.tools:
        yield "tools"
    if _thinks(templates.chosen) or _always_thinks(config) or abilities.thinking:
        yield "thinking"


def _thinks(template: str) -> bool:
    """Return whether a template writes what a model thought, or takes it out of answers."""
    if "<think>" in template and "</think>" in template:
        return True
    splits = any(f"content.split({mark}</think>{mark})" in template for mark in "'\"")
    return splits and not any(
        word in template for word in ("reasoning_content", "<SPECIAL_12>")
    )


def _always_thinks(config: Document) -> bool:
    names = config.get("architectures")
    listed = names if isinstance(names, list) else []
    known = (_text(one).lower() for one in (config.get("model_type"), *listed))
    return any(word in name for name in known for word in _QWEN35)
