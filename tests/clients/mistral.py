"""Run mistral.rs on one model, in a process of its own: it may panic.

python tests/clients/mistral.py write SOURCE DEST.uqff TYPE DTYPE
python tests/clients/mistral.py odds DIRECTORY SHARD|- DTYPE
"""

from __future__ import annotations

import json
import subprocess
import sys

PROMPTS = ("raw ore", "in", "zz#")
MARK = "ODDS "


def quantize(source, dest, isq, dtype="BF16"):
    """Have mistral.rs write a model; return why it did not, or None."""
    return _run("write", source, dest, isq, dtype)[1]


def odds(directory, shard="-", dtype="BF16"):
    """What mistral.rs says comes next after each prompt, and why it said nothing."""
    out, problem = _run("odds", directory, shard, dtype)
    told = [line.removeprefix(MARK) for line in out.splitlines() if line.startswith(MARK)]
    return (json.loads(told[0]), None) if told else (None, problem or "no answer")


def distance(ours, theirs):
    """The largest difference of the odds of what comes first."""
    pairs = [(one[0], other[0]) for one, other in zip(ours, theirs, strict=True)]
    return max(
        abs(one[t] - other[t]) for one, other in pairs for t in one.keys() & other.keys()
    )


def _run(*words):
    done = subprocess.run(
        [sys.executable, __file__, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    told = [
        line for line in done.stderr.splitlines() if "Error: " in line or "panicked" in line
    ]
    return done.stdout, (told or ["failed"])[0][:160] if done.returncode else None


def main():
    """Do what the command line says."""
    import mistralrs

    what, directory, *words = sys.argv[1:]
    dtype = getattr(mistralrs.ModelDType, words[-1])
    files, isq = {}, None
    if what == "write":
        files, isq = {"write_uqff": words[0]}, words[1]
    elif words[0] != "-":
        files = {"from_uqff": words[0]}
    which = mistralrs.Which.Plain(model_id=directory, dtype=dtype, **files)
    runner = mistralrs.Runner(
        which=which, in_situ_quant=isq, token_source="none", no_paged_attn=True
    )
    if what == "odds":
        print(MARK + json.dumps([_odds(mistralrs, runner, prompt) for prompt in PROMPTS]))


def _odds(mistralrs, runner, prompt):
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


if __name__ == "__main__":
    main()
