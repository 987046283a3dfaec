"""Trains two small GPTs in PyTorch, in fp64, and records what zerolab must reproduce.

Usage: make_reference.py OUT_DIR          (needs PyTorch alone; tests/spine/reference/data was made so)

OUT_DIR/<case>/ gets model.safetensors (the initial weights, Hugging Face's GPT-2 names),
final.safetensors (those after the last step), tokens.bin (an llm.c shard) and expected.json: the
train-gpt keys of the run, and loss, gradient norm and learning rate of every step. Weights and
tokens are drawn by hand from Python's generator, whose numbers do not change between versions.
"""

import json
import math
import os
import random
import struct
import sys

import torch
import torch.nn.functional as F

COMMON = {
    "run.steps": 8,
    "launch.ranks": 2,
    "train.micro_batch_size": 2,
    "train.gradient_accumulation_steps": 2,
    "data.order": "sequential",
    "data.val_fraction": 0,
    "model.dropout": 0.0,
}
CASES = {
    # An output layer of its own, biases, momentum, no clipping, a line down to min_lr.
    "sgd-untied": COMMON
    | {
        "model.n_layer": 2, "model.n_head": 3, "model.n_embd": 12, "model.block_size": 10,
        "model.vocab_size": 37, "model.bias": True, "model.tie_weights": False,
        "optimizer.name": "sgd", "optimizer.lr": 0.5, "optimizer.momentum": 0.9,
        "optimizer.weight_decay": 0.01, "optimizer.gradient_clipping": 0.0,
        "schedule.name": "linear", "schedule.warmup_steps": 2, "schedule.min_lr": 0.05,
    },
    # The token embedding is the output layer; no biases, AdamW, clipping, half a cosine.
    "adamw-tied": COMMON
    | {
        "model.n_layer": 2, "model.n_head": 2, "model.n_embd": 12, "model.block_size": 9,
        "model.vocab_size": 41, "model.bias": False, "model.tie_weights": True,
        "optimizer.name": "adamw", "optimizer.lr": 0.01, "optimizer.betas": [0.9, 0.99],
        "optimizer.eps": 1e-6, "optimizer.weight_decay": 0.2, "optimizer.gradient_clipping": 0.5,
        "schedule.name": "cosine", "schedule.warmup_steps": 3, "schedule.min_lr": 0.001,
    },
}  # fmt: skip


def shapes_of(config):
    width, bias = config["model.n_embd"], config["model.bias"]
    shapes = {"wte.weight": (config["model.vocab_size"], width)}
    shapes["wpe.weight"] = (config["model.block_size"], width)

    def add(name, *shape):
        shapes[name + ".weight"] = shape
        if bias:
            shapes[name + ".bias"] = shape[-1:]

    for layer in range(config["model.n_layer"]):
        block = f"h.{layer}."
        add(block + "ln_1", width)
        add(block + "attn.c_attn", width, 3 * width)
        add(block + "attn.c_proj", width, width)
        add(block + "ln_2", width)
        add(block + "mlp.c_fc", width, 4 * width)
        add(block + "mlp.c_proj", 4 * width, width)
    add("ln_f", width)
    if not config["model.tie_weights"]:
        shapes["lm_head.weight"] = (config["model.vocab_size"], width)
    return shapes


def initial_weights(config, generator):
    """Off the usual zeros and ones, so that every parameter matters; exact in fp32."""
    weights = {}
    for name, shape in shapes_of(config).items():
        mean = 1.0 if ".ln_" in "." + name and name.endswith("weight") else 0.0
        values = [generator.gauss(mean, 0.15) for _ in range(math.prod(shape))]
        weights[name] = torch.tensor(values, dtype=torch.float32).view(shape).double()
        weights[name].requires_grad_()
    return weights


def loss_of(config, weights, tokens, targets):
    def linear(name, x):
        y = x @ weights[name + ".weight"]
        return y + weights[name + ".bias"] if config["model.bias"] else y

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights.get(name + ".bias"))

    heads, width = config["model.n_head"], config["model.n_embd"]
    rows, length = tokens.shape
    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:length]
    for layer in range(config["model.n_layer"]):
        block = f"h.{layer}."
        parts = linear(block + "attn.c_attn", norm(block + "ln_1", x)).split(width, dim=2)
        q, k, v = (p.view(rows, length, heads, width // heads).transpose(1, 2) for p in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(block + "attn.c_proj", mixed.transpose(1, 2).reshape(rows, length, width))
        hidden = F.gelu(linear(block + "mlp.c_fc", norm(block + "ln_2", x)), approximate="tanh")
        x = x + linear(block + "mlp.c_proj", hidden)
    head = weights["wte.weight" if config["model.tie_weights"] else "lm_head.weight"]
    logits = norm("ln_f", x) @ head.T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def optimizer_of(config, weights):
    decayed = [w for w in weights.values() if w.dim() >= 2]
    others = [w for w in weights.values() if w.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": config["optimizer.weight_decay"]},
        {"params": others, "weight_decay": 0.0},
    ]
    lr = config["optimizer.lr"]
    if config["optimizer.name"] == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=config["optimizer.momentum"])
    betas, eps = tuple(config["optimizer.betas"]), config["optimizer.eps"]
    return torch.optim.AdamW(groups, lr=lr, betas=betas, eps=eps)


def schedule_of(config, optimizer):
    """PyTorch's own schedules, the warm-up's last step having the full rate."""
    schedules = torch.optim.lr_scheduler
    warmup, lr = config["schedule.warmup_steps"], config["optimizer.lr"]
    rest = config["run.steps"] - warmup
    rising = schedules.LinearLR(optimizer, 1 / warmup, 1.0, total_iters=warmup - 1)
    if config["schedule.name"] == "cosine":
        falling = schedules.CosineAnnealingLR(optimizer, rest, eta_min=config["schedule.min_lr"])
    else:
        falling = schedules.LinearLR(optimizer, 1.0, config["schedule.min_lr"] / lr, rest)
    return schedules.SequentialLR(optimizer, [rising, falling], milestones=[warmup])


def save_safetensors(path, weights):
    header, data = {}, b""
    for name, weight in weights.items():
        values = weight.detach().flatten().tolist()
        blob = struct.pack(f"<{len(values)}f", *values)
        offsets = [len(data), len(data) + len(blob)]
        header[name] = {"dtype": "F32", "shape": list(weight.shape), "data_offsets": offsets}
        data += blob
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def make_tokens(config, generator):
    """A chain that a model can learn, with a random token now and then."""
    samples = config["launch.ranks"] * config["train.micro_batch_size"]
    samples *= config["train.gradient_accumulation_steps"] * config["run.steps"]
    vocab, tokens = config["model.vocab_size"], [1]
    for _ in range(samples * config["model.block_size"]):
        chained = (tokens[-1] * 7 + 3) % vocab
        tokens.append(chained if generator.random() < 0.8 else generator.randrange(vocab))
    return tokens


def make_case(folder, config):
    os.makedirs(folder, exist_ok=True)
    generator = random.Random(folder.rsplit("/", 1)[-1])
    weights = initial_weights(config, generator)
    tokens = make_tokens(config, generator)
    save_safetensors(f"{folder}/model.safetensors", weights)
    with open(f"{folder}/tokens.bin", "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253))
        file.write(struct.pack(f"<{len(tokens)}H", *tokens))

    optimizer = optimizer_of(config, weights)
    schedule = schedule_of(config, optimizer)
    limit = config["optimizer.gradient_clipping"] or math.inf
    length = config["model.block_size"]
    batch = len(tokens) // (length * config["run.steps"])
    stream = torch.tensor(tokens)
    rows = []
    for step in range(config["run.steps"]):
        begin, size = step * batch * length, batch * length
        inputs = stream[begin : begin + size].view(batch, length)
        targets = stream[begin + 1 : begin + 1 + size].view(batch, length)
        optimizer.zero_grad()
        loss = loss_of(config, weights, inputs, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights.values(), limit).item()
        rows.append({"loss": loss.item(), "grad_norm": norm, "lr": schedule.get_last_lr()[0]})
        optimizer.step()
        schedule.step()
    save_safetensors(f"{folder}/final.safetensors", weights)
    with open(f"{folder}/expected.json", "w") as file:
        json.dump({"config": config, "rows": rows}, file, indent=1)
        file.write("\n")
    print(folder, f"{rows[0]['loss']:.4f} -> {rows[-1]['loss']:.4f}")


if __name__ == "__main__":
    for name, settings in CASES.items():
        make_case(f"{sys.argv[1].rstrip('/')}/{name}", settings)
