"""Pipelines of diffusers and models of sentence-transformers, made, exported and run."""

from __future__ import annotations

import numpy as np
import torch

from tests.clients.models import tokenizer
from tests.importer.exports.exporting import arrays


def make_pipeline(directory):
    """Write a latent diffusion pipeline of a few thousand weights."""
    import diffusers

    torch.manual_seed(1)
    unet = diffusers.UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )
    vae = diffusers.VQModel(block_out_channels=(32,), latent_channels=3, norm_num_groups=8)
    pipeline = diffusers.LDMPipeline(vae, unet, diffusers.DDIMScheduler())
    pipeline.save_pretrained(directory)


def run_pipeline(directory):
    """The image that a pipeline makes of a fixed seed."""
    import diffusers

    pipeline = diffusers.DiffusionPipeline.from_pretrained(directory, local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    made = pipeline(
        generator=torch.Generator().manual_seed(0), num_inference_steps=2, output_type="np"
    )
    return np.asarray(made.images)


def make_sentence(directory):
    """Write a sentence model: BERT, pooling, a dense layer."""
    import transformers
    from sentence_transformers import SentenceTransformer, models

    torch.manual_seed(2)
    config = transformers.BertConfig(
        vocab_size=320,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
    )
    bert = directory.parent / "bert"
    transformers.BertModel(config).save_pretrained(bert)
    tokenizer(bert, pad_token="</s>")
    words = models.Transformer(str(bert))
    pooling = models.Pooling(words.get_word_embedding_dimension())
    dense = models.Dense(pooling.get_sentence_embedding_dimension(), 32)
    SentenceTransformer(modules=[words, pooling, dense], device="cpu").save(str(directory))


def run_sentence(directory):
    """The embedding of a sentence."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(directory), device="cpu").encode(["raw ore goes in"])


MAKERS = {
    "diffusers": (make_pipeline, run_pipeline),
    "sentence": (make_sentence, run_sentence),
}
"""Name -> what writes such a model, and what runs it."""


def check(name, place, ingot, kept, differing):
    """Yield the fields of a row for each way of a model."""
    make, run = MAKERS[name]
    source = place / "source"
    source.mkdir(parents=True)
    make(source)
    expected = run(source)
    ingot.run("create", name, source)
    for way, words in {"hf": (), "hf in shards": ("--shard-size", "50K")}.items():
        out = place / way.replace(" ", "-")
        ingot.run("export", name, out, "--to", "hf", *words)
        difference = float(np.abs(run(out) - expected).max())
        problems = kept(source, out) + (["other output"] if difference else [])
        found = arrays(out)
        yield name, way, len(found), differing(found, arrays(source)), difference, problems
