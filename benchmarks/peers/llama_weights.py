# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes random weights of one Llama for every program of benchmarks/compare_generation.py, into one folder:

  config.json, state.safetensors   LlamaForCausalLM of the transformers library; `sluice import` reads the second
  model-TYPE.gguf                  llama.cpp, with matrices in f32, bf16 or q8_0 and norms in f32
  text-N.npy                       random token ids

Usage: llama_weights.py SETTINGS        SETTINGS is JSON: folder, types, texts, tokens and the sizes of the model
       llama_weights.py SETTINGS A B    prints the largest difference of two arrays of logits, relative to the largest number of A
"""
import json
import sys
from pathlib import Path

import numpy


def make_state(sizes):
    """Returns random weights by the names of LlamaForCausalLM. Norms are random too, so that none is without effect."""
    generator = numpy.random.default_rng(1)
    width, hidden = sizes["width"], sizes["feed_forward"]

    def matrix(rows, columns):
        return generator.standard_normal((rows, columns), numpy.float32) * numpy.float32(0.7 / columns**0.5)

    def norm():
        return 1 + 0.1 * generator.standard_normal(width, numpy.float32)

    state = {"model.embed_tokens.weight": matrix(sizes["vocabulary"], width)}
    for layer in range(sizes["layers"]):
        name = f"model.layers.{layer}."
        state |= {name + f"self_attn.{part}_proj.weight": matrix(width, width) for part in "qkvo"}
        state |= {name + f"mlp.{part}_proj.weight": matrix(hidden, width) for part in ("gate", "up")}
        state |= {name + "mlp.down_proj.weight": matrix(width, hidden),
                  name + "input_layernorm.weight": norm(), name + "post_attention_layernorm.weight": norm()}
    return state | {"model.norm.weight": norm(), "lm_head.weight": matrix(sizes["vocabulary"], width)}


def pair_rows(matrix, heads):
    """Puts rows i and i + D/2 of each head of D rows next to each other: llama.cpp rotates adjacent rows, transformers the halves."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_gguf(path, state, sizes, kind):
    import gguf

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, sizes["layers"])
    matrices = gguf.GGMLQuantizationType[kind.upper()]
    file_types = {"f32": gguf.LlamaFileType.ALL_F32, "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(file_types[kind])
    writer.add_context_length(sizes["context"])
    writer.add_embedding_length(sizes["width"])
    writer.add_block_count(sizes["layers"])
    writer.add_feed_forward_length(sizes["feed_forward"])
    writer.add_head_count(sizes["heads"])
    writer.add_head_count_kv(sizes["heads"])
    writer.add_layer_norm_rms_eps(sizes["epsilon"])
    writer.add_rope_freq_base(sizes["base"])
    writer.add_rope_dimension_count(sizes["width"] // sizes["heads"])
    writer.add_vocab_size(sizes["vocabulary"])
    writer.add_tokenizer_model("none")
    for name, tensor in state.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            tensor = pair_rows(tensor, sizes["heads"])
        found = names.get_name(name, try_suffixes=(".weight",))
        if tensor.ndim == 2:
            writer.add_tensor(found, gguf.quants.quantize(tensor, matrices), raw_dtype=matrices)
        else:
            writer.add_tensor(found, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write(settings):
    from safetensors.numpy import save_file

    folder, sizes = Path(settings["folder"]), settings["sizes"]
    state = make_state(sizes)
    save_file(state, folder / "state.safetensors")
    config = {"hidden_size": sizes["width"], "num_attention_heads": sizes["heads"], "num_key_value_heads": sizes["heads"],
              "num_hidden_layers": sizes["layers"], "intermediate_size": sizes["feed_forward"], "vocab_size": sizes["vocabulary"],
              "max_position_embeddings": sizes["context"], "rms_norm_eps": sizes["epsilon"], "tie_word_embeddings": False,
              "rope_parameters": {"rope_type": "default", "rope_theta": sizes["base"]}}
    (folder / "config.json").write_text(json.dumps(config))
    for kind in settings["types"]:
        write_gguf(folder / f"model-{kind}.gguf", state, sizes, kind)
    generator = numpy.random.default_rng(2)
    for number in range(settings["texts"]):
        ids = generator.integers(sizes["vocabulary"], size=settings["tokens"], dtype=numpy.int32)
        numpy.save(folder / f"text-{number}.npy", ids)


def main():
    if len(sys.argv) == 4:
        expected, found = (numpy.load(path, mmap_mode="r") for path in sys.argv[2:])
        print(numpy.abs(found - expected).max() / numpy.abs(expected).max())
    else:
        write(json.loads(sys.argv[1]))


main()
