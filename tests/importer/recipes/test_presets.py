"""What each preset makes of real models: literal tables, reasoned from the formats."""
# ruff: noqa: E501 - tables are read in columns

from __future__ import annotations

import gzip
import json
import re
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.codecs.spec import parse_target
from importer.recipes.depths import Depths
from importer.recipes.options import parse_options
from importer.sources.classification import Classification, SourceKind
from tests.importer.builders import MODELS as FIXTURE_MODELS

COLUMNS = ("default int4", "default int8", "default nvfp4", "ollama int4", "ollama nvfp4")

# Each row: name, shape, and what it becomes in each of COLUMNS; `-` is kept, `=` is what
# was asked for (`ALL`). Names and shapes are those of the
# checkpoints (GPT-OSS in BF16, as it is before quantization).
ALL = "int4 int8 nvfp4 int4/64 nvfp4"
MODELS = {
    "LlamaForCausalLM": """
        model.embed_tokens.weight                               128256x2048   - - - - -
        model.layers.0.input_layernorm.weight                   2048          - - - - -
        model.layers.0.self_attn.q_proj.weight                  2048x2048     =
        model.layers.0.self_attn.k_proj.weight                  512x2048      int4 int8 nvfp4 int8 mxfp8
        model.layers.0.self_attn.v_proj.weight                  512x2048      int4 int8 nvfp4 int8 mxfp8
        model.layers.0.self_attn.o_proj.weight                  2048x2048     =
        model.layers.0.self_attn.q_proj.bias                    2048          - - - - -
        model.layers.0.self_attn.rotary_emb.inv_freq            32            - - - - -
        model.layers.0.mlp.gate_proj.weight                     8192x2048     =
        model.layers.0.mlp.up_proj.weight                       8192x2048     =
        model.layers.0.mlp.down_proj.weight                     2048x8192     int8 int8 nvfp4 int8 mxfp8
        model.norm.weight                                       2048          - - - - -
        lm_head.weight                                          128256x2048   int4 int8 nvfp4 int8 mxfp8
    """,
    "DeepseekV3ForCausalLM": """
        model.embed_tokens.weight                               129280x7168   - - - - -
        model.layers.3.self_attn.q_a_proj.weight                1536x7168     - - nvfp4 int4/64 nvfp4
        model.layers.3.self_attn.q_a_layernorm.weight           1536          - - - - -
        model.layers.3.self_attn.q_b_proj.weight                24576x1536    - - nvfp4 int4/64 nvfp4
        model.layers.3.self_attn.kv_a_proj_with_mqa.weight      576x7168      - - nvfp4 int4/64 nvfp4
        model.layers.3.self_attn.kv_b_proj.weight               32768x512     - - nvfp4 int4/64 nvfp4
        model.layers.3.self_attn.o_proj.weight                  7168x16384    =
        model.layers.3.mlp.gate.weight                          256x7168      - - - - -
        model.layers.3.mlp.gate.e_score_correction_bias         256           - - - - -
        model.layers.3.mlp.experts.255.gate_proj.weight         2048x7168     =
        model.layers.3.mlp.experts.255.up_proj.weight           2048x7168     =
        model.layers.3.mlp.experts.255.down_proj.weight         7168x2048     int8 int8 nvfp4 int8 nvfp4
        model.layers.3.mlp.shared_experts.up_proj.weight        2048x7168     =
        model.layers.3.mlp.shared_experts.down_proj.weight      7168x2048     int8 int8 nvfp4 int8 nvfp4
        model.layers.0.mlp.down_proj.weight                     7168x18432    int8 int8 nvfp4 int8 mxfp8
        model.layers.61.eh_proj.weight                          7168x14336    =
        model.layers.61.enorm.weight                            7168          - - - - -
        model.layers.61.shared_head.norm.weight                 7168          - - - - -
    """,
    "GraniteMoeForCausalLM": """
        model.layers.0.block_sparse_moe.input_linear.weight     40x1024x1536  int4 int8 nvfp4 - -
        model.layers.0.block_sparse_moe.output_linear.weight    40x1536x512   int4 int8 nvfp4 - -
        model.layers.0.block_sparse_moe.router.layer.weight     40x1536       - - - int4/64 nvfp4
    """,
    "Step3TextForCausalLM": """
        model.layers.4.moe.gate.weight                          48x7168       - - - int4/64 nvfp4
        model.layers.4.moe.up_proj.weight                       48x5120x7168  int4 int8 nvfp4 - -
        model.layers.4.moe.down_proj.weight                     48x7168x5120  int8 int8 nvfp4 - -
    """,
    "Phi4MMForCausalLM": """
        model.layers.0.mlp.down_proj.base_layer.weight          3072x8192     int8 int8 nvfp4 int8 mxfp8
        model.layers.0.mlp.gate_up_proj.base_layer.weight       16384x3072    =
    """,
    "DbrxForCausalLM": """
        transformer.blocks.0.ffn.experts.mlp.w1                 172032x6144   int4 int8 nvfp4 int4/64 nvfp4
        transformer.blocks.0.ffn.router.layer.weight            16x6144       - - - int4/64 nvfp4
        transformer.blocks.0.norm_attn_norm.attn.Wqkv.weight    8192x6144     int4 int8 nvfp4 - -
        transformer.blocks.0.norm_attn_norm.norm_1.weight       6144          - - - - -
    """,
    "NarrowForConditionalGeneration": """
        model.layers.0.mlp.down_proj.weight                     64x80         - - nvfp4 - nvfp4
        model.layers.0.self_attn.k_proj.weight                  32x96         int4 - nvfp4 - mxfp8
        language_model.lm_head.weight                           512x64        int4 int8 nvfp4 int8 mxfp8
    """,
    "Qwen3MoeForCausalLM": """
        model.layers.0.self_attn.q_norm.weight                  128           - - - - -
        model.layers.0.self_attn.q_proj.weight                  4096x2048     =
        model.layers.0.self_attn.k_proj.weight                  512x2048      int4 int8 nvfp4 int8 mxfp8
        model.layers.0.mlp.gate.weight                          128x2048      - - - - -
        model.layers.0.mlp.experts.0.gate_proj.weight           768x2048      =
        model.layers.0.mlp.experts.0.down_proj.weight           2048x768      int8 int8 nvfp4 int8 nvfp4
    """,
    "Qwen2MoeForCausalLM": """
        model.layers.0.mlp.shared_expert.up_proj.weight         5632x2048     =
        model.layers.0.mlp.shared_expert.down_proj.weight       2048x5632     int8 int8 nvfp4 int8 mxfp8
        model.layers.0.mlp.shared_expert_gate.weight            1x2048        - - - - -
        model.layers.0.mlp.gate.weight                          60x2048       - - - - -
    """,
    "MixtralForCausalLM": """
        model.layers.0.block_sparse_moe.gate.weight             8x4096        - - - int4/64 nvfp4
        model.layers.0.block_sparse_moe.experts.0.w1.weight     14336x4096    =
        model.layers.0.block_sparse_moe.experts.0.w2.weight     4096x14336    =
        model.layers.0.block_sparse_moe.experts.0.w3.weight     14336x4096    =
    """,
    "GptOssForCausalLM": """
        model.layers.0.self_attn.sinks                          64            - - - - -
        model.layers.0.self_attn.o_proj.weight                  2880x4096     =
        model.layers.0.self_attn.o_proj.bias                    2880          - - - - -
        model.layers.0.mlp.router.weight                        32x2880       - - - int4/64 nvfp4
        model.layers.0.mlp.router.bias                          32            - - - - -
        model.layers.0.mlp.experts.gate_up_proj                 32x2880x5760  =
        model.layers.0.mlp.experts.gate_up_proj_bias            32x5760       - - - int4/64 nvfp4
        model.layers.0.mlp.experts.down_proj                    32x2880x2880  int8 int8 nvfp4 int8 nvfp4
        model.layers.0.mlp.experts.down_proj_bias               32x2880       - - - int8 nvfp4
    """,
    "Qwen2VLForConditionalGeneration": """
        visual.patch_embed.proj.weight                          1280x3x2x14x14 - - - - -
        visual.blocks.0.attn.qkv.weight                         3840x1280     - - - - -
        visual.blocks.0.mlp.fc1.bias                            5120          - - - - -
        visual.merger.mlp.0.weight                              5120x5120     - - - - -
        model.layers.0.self_attn.q_proj.weight                  1536x1536     =
        model.layers.0.mlp.down_proj.weight                     1536x8960     int8 int8 nvfp4 int8 mxfp8
    """,
    "Qwen2AudioForConditionalGeneration": """
        audio_tower.layers.0.fc1.weight                         5120x1280     - - - - -
        audio_tower.conv1.weight                                1280x128x3    - - - - -
        language_model.model.layers.0.mlp.up_proj.weight        11008x4096    =
        language_model.lm_head.weight                           156032x4096   int4 int8 nvfp4 int8 mxfp8
    """,
    "T5ForConditionalGeneration": """
        shared.weight                                           32128x768     - - - int4/64 nvfp4
        encoder.embed_tokens.weight                             32128x768     - - - - -
        encoder.block.0.layer.0.SelfAttention.q.weight          768x768       =
        encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 32x12 - - - - -
        encoder.block.0.layer.0.layer_norm.weight               768           - - - - -
        encoder.block.0.layer.1.DenseReluDense.wi_0.weight      2048x768      =
        encoder.block.0.layer.1.DenseReluDense.wo.weight        768x2048      =
        lm_head.weight                                          32128x768     int4 int8 nvfp4 int8 mxfp8
    """,
    "WhisperForConditionalGeneration": """
        model.encoder.conv1.weight                              384x80x3      - - - - -
        model.encoder.conv1.bias                                384           - - - - -
        model.encoder.embed_positions.weight                    1500x384      - - - - -
        model.encoder.layers.0.self_attn.k_proj.weight          384x384       int4 int8 nvfp4 int8 mxfp8
        model.encoder.layers.0.self_attn_layer_norm.weight      384           - - - - -
        model.encoder.layers.0.fc1.weight                       1536x384      =
        model.decoder.embed_tokens.weight                       51865x384     - - - - -
        model.decoder.layers.0.encoder_attn.v_proj.weight       384x384       int4 int8 nvfp4 int8 mxfp8
        proj_out.weight                                         51865x384     =
    """,
    "MambaForCausalLM": """
        backbone.embeddings.weight                              50280x768     - - - - -
        backbone.layers.0.mixer.A_log                           1536x16       - - - - -
        backbone.layers.0.mixer.D                               1536          - - - - -
        backbone.layers.0.mixer.conv1d.weight                   1536x1x4      - - - - -
        backbone.layers.0.mixer.in_proj.weight                  3072x768      =
        backbone.layers.0.mixer.x_proj.weight                   80x1536       =
        backbone.layers.0.mixer.dt_proj.weight                  1536x48       - - nvfp4 - nvfp4
        backbone.layers.0.mixer.out_proj.weight                 768x1536      =
        backbone.layers.0.norm.weight                           768           - - - - -
        backbone.norm_f.weight                                  768           - - - - -
    """,
    "Qwen3NextForCausalLM": """
        model.layers.0.linear_attn.A_log                        32            - - - - -
        model.layers.0.linear_attn.conv1d.weight                8192x1x4      - - - - -
        model.layers.0.linear_attn.in_proj_ba.weight            64x2048       int4 int8 nvfp4 - -
        model.layers.0.linear_attn.in_proj_qkvz.weight          12288x2048    =
        model.layers.0.linear_attn.norm.weight                  128           - - - - -
        model.layers.3.self_attn.v_proj.weight                  512x2048      int4 int8 nvfp4 int8 mxfp8
    """,
    "Gemma4ForConditionalGeneration": """
        model.vision_tower.patch_embedder.input_proj.weight     768x768       - - - - -
        model.language_model.embed_tokens.weight                262144x1536   - - - int8 mxfp8
        model.language_model.embed_tokens_per_layer.weight      262144x8960   - - - - -
        model.language_model.layers.0.self_attn.v_proj.weight   256x1536      int4 int8 nvfp4 int8 mxfp8
        model.language_model.layers.1.self_attn.v_proj.weight   256x1536      =
        model.language_model.layers.1.mlp.down_proj.weight      1536x6144     int8 int8 nvfp4 int4/64 nvfp4
        model.language_model.layers.3.mlp.down_proj.weight      1536x6144     int8 int8 nvfp4 int8 mxfp8
        model.language_model.layers.7.self_attn.k_proj.weight   256x1536      =
    """,
    "OneThousandElements": """
        a.weight                                                32x32         int4 - nvfp4 - nvfp4
        b.weight                                                31x32         - - - - -
        c.weight                                                16x64         =
        d.weight                                                15x64         - - - - -
        v_proj.weight                                           7x128         - - - - -
        down_proj.weight                                        7x128         - - - - -
        lm_head.weight                                          7x128         - - - - -
        layers.0.experts.up_proj                                3x2x128       - - - - -
        layers.0.experts.down_proj                              3x2x128       - - - - -
        layers.0.conv.weight                                    64x64x64      - - - - -
        layers.0.matrix                                         64x64         - - - - -
    """,
}  # fmt: skip
PIPELINES = {
    "FluxPipeline": """
        transformer/x_embedder.weight                                       3072x64      - - -
        transformer/context_embedder.weight                                 3072x4096    - - -
        transformer/time_text_embed.timestep_embedder.linear_1.weight       3072x256     - - -
        transformer/transformer_blocks.0.norm1.linear.weight                18432x3072   - - -
        transformer/transformer_blocks.0.attn.to_q.weight                   3072x3072    =
        transformer/transformer_blocks.0.attn.norm_q.weight                 128          - - -
        transformer/transformer_blocks.0.ff.net.0.proj.weight               12288x3072   =
        transformer/single_transformer_blocks.0.proj_mlp.weight             12288x3072   =
        transformer/proj_out.weight                                         64x3072      =
        text_encoder/text_model.embeddings.token_embedding.weight           49408x768    - - -
        text_encoder/text_model.encoder.layers.0.layer_norm1.weight         768          - - -
        text_encoder/text_model.encoder.layers.0.mlp.fc1.weight             3072x768     =
        text_encoder_2/shared.weight                                        32128x4096   - - -
        text_encoder_2/encoder.block.0.layer.0.SelfAttention.q.weight       4096x4096    =
        text_encoder_2/encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight 32x64 - - -
        vae/encoder.mid_block.attentions.0.to_q.weight                      512x512      - - -
        vae/decoder.conv_in.weight                                          512x16x3x3   - - -
    """,
    "ZImagePipeline": """
        text_encoder/model.layers.0.mlp.down_proj.weight                    2560x9728    =
        text_encoder/model.layers.0.self_attn.kv_b_proj.weight              2560x512     =
        text_encoder/model.embed_tokens.weight                              151936x2560  - - -
        transformer/layers.0.feed_forward.w2.weight                         3840x10240   =
        transformer/layers.0.adaLN_modulation.0.weight                      15360x256    =
        image_encoder/vision_model.encoder.layers.0.mlp.fc1.weight          5120x1280    - - -
    """,
    "StableDiffusionXLPipeline": """
        unet/conv_in.weight                                                 320x4x3x3    - - -
        unet/time_embedding.linear_1.weight                                 1280x320     - - -
        unet/add_embedding.linear_1.weight                                  1280x2816    - - -
        unet/down_blocks.0.resnets.0.conv1.weight                           320x320x3x3  - - -
        unet/down_blocks.0.resnets.0.time_emb_proj.weight                   320x1280     =
        unet/down_blocks.1.attentions.0.proj_in.weight                      640x640      =
        unet/down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.weight 640x640   =
        unet/down_blocks.1.attentions.0.transformer_blocks.0.norm1.weight   640          - - -
        text_encoder_2/text_projection.weight                               1280x1280    =
        vae/decoder.mid_block.attentions.0.to_q.weight                      512x512      - - -
        vae/quant_conv.weight                                               8x8x1x1      - - -
        vae/post_quant_conv.bias                                            4            - - -
    """,
}  # fmt: skip


def read_table(text):
    for line in text.strip().splitlines():
        name, shape, *expected = line.split()
        yield name, tuple(map(int, shape.split("x"))), expected


def facts(architecture="", kind=SourceKind.MODEL):
    return Classification(kind, architecture, "", None, None, None, ())


def becomes(recipe, name, shape, depths):
    target = recipe.decide(name, "BF16", shape, depths).target
    return "-" if target is None else str(target)


def depths_of(names):
    """With a configuration that has as many layers as the names tell."""
    names = list(names)
    found = [int(one[1]) for one in map(LAYER.search, names) if one]
    return Depths(names, {"num_hidden_layers": max(found, default=-1) + 1})


LAYER = re.compile(r"layers\.(\d+)\.")


def check(table, found, columns):
    rows = list(read_table(table))
    depths = depths_of(name for name, _, _ in rows)
    for column, word in enumerate(columns):
        preset, type_ = word.split()
        recipe = parse_options(type_, recipe=preset).resolve(found)
        expected = {
            name: ALL.split()[column] if cells == ["="] else cells[column]
            for name, _, cells in rows
        }
        made = {name: becomes(recipe, name, shape, depths) for name, shape, _ in rows}
        assert made == expected, word


@pytest.mark.parametrize("architecture", MODELS)
def test_a_model_is_quantized_as_documented(architecture):
    check(MODELS[architecture], facts(architecture), COLUMNS)


@pytest.mark.parametrize("architecture", PIPELINES)
def test_a_pipeline_is_quantized_as_documented(architecture):
    check(PIPELINES[architecture], facts(architecture, SourceKind.PIPELINE), COLUMNS[:3])


EVERY = [
    (name, shape)
    for table in (MODELS | PIPELINES).values()
    for name, shape, _ in read_table(table)
]


@pytest.mark.parametrize("type_", ["nvfp4", "mxfp4", "mxfp8", "int2", "int5"])
@pytest.mark.parametrize("preset", ["default", "uniform"])
def test_there_is_one_type_where_none_is_promoted(preset, type_):
    recipe = parse_options(type_, recipe=preset).resolve(facts())
    depths = Depths(())

    found = {becomes(recipe, name, shape, depths) for name, shape in EVERY}

    assert found == {"-", type_}


STACKS = (".experts.", ".moe.", ".input_linear.", ".output_linear.")


@pytest.mark.parametrize("type_", ["int4", "int8", "nvfp4", "mxfp8"])
def test_uniform_quantizes_every_matrix_that_fits(type_):
    recipe = parse_options(type_, recipe="uniform").resolve(facts())
    group_size = parse_target(type_).group_size

    for name, shape in EVERY:
        is_matrix = len(shape) == 2 and name.endswith((".weight", ".experts.mlp.w1"))
        is_stack = len(shape) == 3 and any(word in name for word in STACKS)
        fits = (is_matrix or is_stack) and shape[-1] % group_size == 0
        assert becomes(recipe, name, shape, Depths(())) == (type_ if fits else "-"), name


def test_linears_quantizes_linear_layers_and_keeps_towers_and_embeddings():
    recipe = parse_options("int6", recipe="linears").resolve(facts())
    expected = {
        "model.layers.0.mlp.down_proj.weight": "int6",
        "model.layers.0.mlp.gate.weight": "int6",
        "lm_head.weight": "int6",
        "embed_out.weight": "int6",
        "model.layers.0.mlp.experts.down_proj": "int6",
        "model.embed_tokens.weight": "-",
        "vpm.encoder.layers.0.self_attn.q_proj.weight": "-",
        "model.visual.blocks.0.attn.qkv.weight": "-",
        "model.norm.weight": "-",
    }
    shapes = {"model.layers.0.mlp.experts.down_proj": (2, 64, 64), "model.norm.weight": (64,)}

    assert {
        name: becomes(recipe, name, shapes.get(name, (64, 64)), Depths(())) for name in expected
    } == expected


@pytest.mark.parametrize(
    "preset", ["default", "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"]
)
@pytest.mark.parametrize("name", ["vpm.layers.0.mlp.fc1", "model.visual.blocks.1.mlp.v_proj"])
def test_towers_stay_unless_somebody_asks(preset, name):
    weight, asked = f"{name}.weight", "int4" if preset == "default" else None
    for role, expected in ({}, "-"), ({"vision": "bf16"}, "bf16"), ({"vision": "int8"}, "int8"):
        recipe = parse_options(asked, recipe=preset, roles=role).resolve(facts())

        decision = recipe.decide(weight, "F32", (64, 64), Depths([weight]))
        assert str(decision.target or "-") == expected


@pytest.mark.parametrize("type_", ["int4", "int8", "nvfp4", "mxfp4", "mxfp8"])
@pytest.mark.parametrize("architecture", [name for name in MODELS if "Gemma4" not in name])
def test_ollama_is_what_its_policy_says(architecture, type_):
    # formats/ollama-store.md section 7, written down a second time.
    recipe = parse_options(type_, recipe="ollama").resolve(facts(architecture))
    eight = "int8" if type_.startswith("int") else "mxfp8"
    own = {"int4": "int4/64"}.get(type_, type_)

    def policy(name, shape):
        is_stack = any(
            word in name
            for word in (".experts.", ".mlp.switch_mlp.", ".mlp.shared_experts.",
                         ".mixer.shared_experts.")
        )  # fmt: skip
        skipped = ("embed", "norm", "ln_", "audio_tower")
        gates = (".mlp.gate.weight", ".mixer.gate.weight", ".shared_expert_gate.weight",
                 ".router.proj.weight")  # fmt: skip
        if not is_stack and any(word in name for word in skipped):
            return "-"
        if name.endswith((".bias", *gates)) or "vision" in name or "visual" in name:
            return "-"
        is_matrix = name.endswith(".weight") and len(shape) == 2
        if not (is_matrix or (is_stack and len(shape) in {2, 3})) or prod(shape) < 1024:
            return "-"
        if "Qwen3Next" in architecture and ".linear_attn.in_proj_ba" in name:
            return "-"
        promoted = any(word in name for word in (".v_proj", ".k_proj", "down_proj")) and (
            type_ == "int4" or (type_ in {"nvfp4", "mxfp4"} and not is_stack)
        )
        fits = [kind for kind in (eight, own) if not shape[-1] % parse_target(kind).group_size]
        if name.endswith("lm_head.weight"):
            return eight if eight in fits else "-"
        wanted = [eight, own] if promoted else [own]
        return next((kind for kind in wanted if kind in fits), "-")

    rows = {name: shape for name, shape, _ in read_table(MODELS[architecture])}
    assert {
        name: becomes(recipe, name, shape, Depths(rows)) for name, shape in rows.items()
    } == {name: policy(name, shape) for name, shape in rows.items()}


# mlx-lm, whose predicate sees the modules of its own models.

MIXED = {"mixed_2_6": (2, 6), "mixed_3_4": (3, 4), "mixed_3_6": (3, 6), "mixed_4_6": (4, 6)}
_modules = st.sampled_from(
    ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
     "self_attn.qkv_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj",
     "self_attn.q_a_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "mlp.gate",
     "mlp.experts.3.down_proj", "mlp.experts.11.up_proj", "mlp.shared_experts.down_proj",
     "mixer.conv_proj", "mlp.gate_up_proj", "attention.wo", "block_sparse_moe.gate"]
)  # fmt: skip
_paths = st.lists(st.tuples(st.integers(0, 47), _modules), max_size=20)


def predicate(path, index, count, low, high):
    """Restate mlx-lm's `mixed_quant_predicate`: the bits of a module (mlx-affine.md, 9)."""
    more = index is not None and (
        index < count // 8 or index >= (7 * count) // 8 or (index - count // 8) % 3 == 2
    )
    if more and any(word in path for word in ("v_proj", "v_a_proj", "v_b_proj", "down_proj")):
        return high
    return high if "lm_head" in path else low


@given(st.sampled_from(sorted(MIXED)), st.integers(1, 48), _paths, st.sampled_from([32, 64]))
def test_mixed_recipes_decide_as_mlx_lm_does(preset, count, found, group_size):
    low, high = MIXED[preset]
    own = {f"model.layers.{i % count}.{module}": i % count for i, module in found}
    own[f"model.layers.{count - 1}.mlp.up_proj"] = count - 1
    own |= dict.fromkeys(("lm_head", "model.embed_tokens", "language_model.lm_head"))
    depths = Depths(f"{path}.weight" for path in own)
    recipe = parse_options(recipe=preset, group_size=group_size).resolve(facts())

    for path, index in own.items():
        bits = predicate(path, index, count, low, high)
        made = recipe.decide(f"{path}.weight", "BF16", (64, 128), depths).target
        assert (made.bits, made.group_size) == (bits, group_size), path


@pytest.mark.parametrize("preset", MIXED)
def test_mixed_recipes_know_experts_that_mlx_lm_renames_and_stacks(preset):
    low, high = MIXED[preset]
    recipe = parse_options(recipe=preset).resolve(facts())
    stem = "model.layers.0.block_sparse_moe.experts"  # one layer gets more bits
    shapes = {
        f"{stem}.0.w1.weight": (64, 64),
        f"{stem}.0.w2.weight": (64, 64),
        f"{stem}.gate_up_proj": (4, 64, 64),
        f"{stem}.down_proj": (4, 64, 64),
        "model.norm.weight": (64,),
        "model.layers.0.conv.weight": (64, 64, 64),
    }

    made = [recipe.decide(name, "BF16", shapes[name], Depths(shapes)).target for name in shapes]

    assert [one and one.bits for one in made] == [low, high, low, high, None, None]


@pytest.mark.parametrize("preset", ["default", "ollama"])
@pytest.mark.parametrize("architecture", PIPELINES)
def test_a_vae_is_kept_whole_in_pipelines_alone(preset, architecture):
    rows = [(name, shape) for name, shape, _ in read_table(PIPELINES[architecture])]
    rows = [*(row for row in rows if row[0].startswith("vae/")), ("vae/w.weight", (64, 64))]
    inside, outside = (
        parse_options("int8", recipe=preset).resolve(facts("", kind))
        for kind in (SourceKind.PIPELINE, SourceKind.MODEL)
    )

    for name, shape in rows:
        decision = inside.decide(name, "BF16", shape, Depths(()))
        assert (decision.target, decision.reason) == (None, "part of a VAE")
    assert becomes(outside, "vae/w.weight", (64, 64), Depths(())) == "int8"


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [
        ("a.weight", (4, 64), "fewer than 1024 elements"),
        ("conv1.weight", (64, 64, 3), "convolution"),
        ("conv_in.weight", (64, 64, 3, 3), "convolution"),
        ("a.bias", (64,), "vector, bias or buffer"),
        ("A_log", (64, 64), "vector, bias or buffer"),
        ("model.layers.0.mlp.gate.weight", (64, 64), "router or gate"),
        (
            "model.layers.0.self_attn.q_a_proj.weight",
            (64, 64),
            "MLA projection, small and sensitive",
        ),
    ],
)
def test_what_the_default_keeps_says_why(name, shape, reason):
    decision = parse_options("int4").resolve(facts()).decide(name, "BF16", shape, Depths(()))

    assert (decision.target, decision.reason) == (None, reason)


# Ollama's own decisions, run as a program at fb3076099 (0.33.0-rc2).

DECISIONS = FIXTURE_MODELS.parent / "ollama" / "decisions.jsonl.gz"


def decided_by_ollama():
    with gzip.open(DECISIONS, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_the_recipe_ollama_decides_what_ollama_decides():
    count, differences = 0, {}
    for case in decided_by_ollama():
        config, tensors = case["config"], case["tensors"]
        depths = Depths((name for name, _, _ in tensors), config)
        found = Classification(
            SourceKind.MODEL,
            (config.get("architectures") or [""])[0],
            config.get("model_type", ""),
            None, None, None, (),
        )  # fmt: skip
        for type_, expected in case["decisions"].items():
            recipe = parse_options(type_, recipe="ollama").resolve(found)
            for (name, dtype, shape), theirs in zip(tensors, expected, strict=True):
                target = recipe.decide(name, dtype, tuple(shape), depths).target
                ours = "keep" if target is None else target.name
                count += 1
                if ours != theirs:
                    differences.setdefault((dtype, name), []).append((ours, theirs == type_))

    assert count == 55_430
    # It casts integers to BF16 and quantizes them, which loses what they are: not followed.
    assert set(differences) == {("I64", "i64.weight"), ("U8", "u8.weight")}
    assert all(ours == "keep" for pairs in differences.values() for ours, _ in pairs)
