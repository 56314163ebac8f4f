"""Run transformers and mlx-lm: their logits, and what mlx-lm converts."""

from __future__ import annotations

import contextlib
import io
import json

import mlx.core as mx
import mlx_lm
import numpy as np
import torch
import transformers

TOKENS = [1, 5, 7, 9, 200, 31]


def torch_logits(directory):
    """The logits of transformers in F32, of a directory alone."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, local_files_only=True
    )
    model.eval()
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits.numpy()


def mlx_logits(directory):
    """The logits of mlx-lm."""
    model, _ = mlx_lm.load(str(directory))
    return np.array(model(mx.array([TOKENS])).astype(mx.float32))


def runs(source, way):
    """Whether MLX runs such a model on a processor: plain experts only in F32."""
    config = json.loads((source / "config.json").read_bytes())
    is_dense = not any("expert" in key for key in config)
    return config["model_type"] != "gemma3_text" and (is_dense or way != "plain")


def convert(source, place, **asked):
    """Do what `mlx_lm.convert` does, silently."""
    with contextlib.redirect_stdout(io.StringIO()):
        mlx_lm.convert(str(source), str(place), **asked)


def largest(found, expected):
    """The largest difference, or infinity where only one is a number."""
    if found.shape != expected.shape or (np.isnan(found) != np.isnan(expected)).any():
        return float("inf")
    difference = np.abs(found - expected)
    return float(np.nanmax(difference)) if not np.isnan(difference).all() else 0.0
