"""Records what Hugging Face's GPT-2 computes and is made of, for tests/models/gpt2_test.cpp.

Usage: make_gpt2_logits.py OUT_DIR     (needs PyTorch and transformers; tests/spine/reference/data/gpt2 was made so)

OUT_DIR/shapes.json: the parameters of GPT-2's four sizes; "h.*" stands for every block.
OUT_DIR/<case>/: a small random model as transformers saves it (model.safetensors), its logits
(logits.json), and for the tied one llm.c's file of the same weights (model.bin).
"""

import json
import os
import re
import struct
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = {"124M": (12, 12, 768), "355M": (24, 16, 1024), "774M": (36, 20, 1280), "1558M": (48, 25, 1600)}
SMALL = dict(n_layer=2, n_head=2, n_embd=16, n_positions=16, vocab_size=53, bos_token_id=None, eos_token_id=None)
PADDED_VOCAB = 128  # llm.c rounds it up to a multiple of this
PER_LAYER = (
    "ln_1.weight ln_1.bias attn.c_attn.weight attn.c_attn.bias attn.c_proj.weight attn.c_proj.bias "
    "ln_2.weight ln_2.bias mlp.c_fc.weight mlp.c_fc.bias mlp.c_proj.weight mlp.c_proj.bias"
).split()


def shapes_of(config):
    with torch.device("meta"):
        model = GPT2LMHeadModel(config)
    shapes = {}
    for name, parameter in model.named_parameters():
        name = re.sub(r"^h\.\d+\.", "h.*.", name.removeprefix("transformer."))
        assert shapes.setdefault(name, list(parameter.shape)) == list(parameter.shape)
    return shapes


def write_llmc(path, config, weights):
    """fp32, version 3; matrices as [out, in], a tensor of all layers after the other."""
    names = ["wte.weight", "wpe.weight"]
    names += [f"h.{layer}.{name}" for name in PER_LAYER for layer in range(config.n_layer)]
    names += ["ln_f.weight", "ln_f.bias"]
    header = [20240326, 3, config.n_positions, config.vocab_size, config.n_layer, config.n_head, config.n_embd, PADDED_VOCAB]
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", *header, *[0] * (256 - len(header))))
        for name in names:
            weight = weights["transformer." + name]
            if name == "wte.weight":
                padding = torch.full((PADDED_VOCAB - config.vocab_size, config.n_embd), float("nan"))
                weight = torch.cat([weight, padding])
            elif weight.dim() == 2 and name != "wpe.weight":
                weight = weight.t()
            file.write(weight.contiguous().numpy().tobytes())


def write_case(folder, config):
    torch.manual_seed(7)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # off zeros and ones, so that each matters
            parameter.copy_(torch.randn(parameter.shape) * 0.3 + (1.0 if re.search(r"ln_.\.weight", name) else 0.0))
        tokens = torch.randint(config.vocab_size, (2, config.n_positions))
        logits = model(tokens).logits
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    with open(os.path.join(folder, "logits.json"), "w") as file:
        values = [float(f"{value:.9g}") for value in logits.flatten().tolist()]
        json.dump({"tokens": tokens.tolist(), "logits": values}, file)
        file.write("\n")
    if config.tie_word_embeddings:
        write_llmc(os.path.join(folder, "model.bin"), config, model.state_dict())


def main(out):
    os.makedirs(out, exist_ok=True)
    sizes = {}
    for name, (layers, heads, width) in SIZES.items():
        config = GPT2Config(n_layer=layers, n_head=heads, n_embd=width)
        sizes[name] = {"n_layer": layers, "n_head": heads, "n_embd": width, "shapes": shapes_of(config)}
    with open(os.path.join(out, "shapes.json"), "w") as file:
        json.dump(sizes, file)
        file.write("\n")
    for tied in (True, False):
        folder = os.path.join(out, "tied" if tied else "untied")
        write_case(folder, GPT2Config(**SMALL, tie_word_embeddings=tied))


main(sys.argv[1])
