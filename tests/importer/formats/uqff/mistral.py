"""What mistral.rs does with UQFF: it writes models, and says what comes next."""

from __future__ import annotations

import mistralrs

from tests.importer.formats.uqff.tiny_models import ARCHITECTURES

PROMPTS = ("abcXYZ", "QRS!2", "zz#")


def _runner(directory, kind, isq=None, **files):
    which = mistralrs.Which.Plain(
        model_id=str(directory),
        arch=getattr(mistralrs.Architecture, ARCHITECTURES[kind]),
        dtype=mistralrs.ModelDType.F32,
        **files,
    )
    return mistralrs.Runner(
        which=which, in_situ_quant=isq, token_source="none", no_paged_attn=True
    )


def quantize(source, kind, target, isq):
    """Write a model in one of mistral.rs's types, as `<isq>-0.uqff` and what is beside it."""
    _runner(source, kind, isq, write_uqff=str(target / f"{isq.lower()}.uqff"))


def odds(directory, kind, shard=None):
    """Return for each prompt the likeliest next tokens, with the logarithms of their odds."""
    runner = _runner(directory, kind, **({"from_uqff": shard} if shard else {}))
    return [_odds(runner, prompt) for prompt in PROMPTS]


def _odds(runner, prompt):
    request = mistralrs.ChatCompletionRequest(
        model="default",
        messages=[{"role": "user", "content": prompt}],
        max_tokens=8,
        temperature=0.0,
        logprobs=True,
        top_logprobs=20,
    )
    (choice,) = runner.send_chat_completion_request(request).choices
    return [
        {one.token: one.logprob for one in place.top_logprobs}
        for place in choice.logprobs.content
    ]
