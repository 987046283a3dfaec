"""Trains a small GPT-2 in PyTorch, in fp32, and records what zerolab must reproduce on four ranks.

Usage: make_gpt_tiny.py OUT_DIR     (needs PyTorch and NumPy; tests/spine/reference/data/gpt-tiny was made so)

OUT_DIR gets the files that make_reference.py writes for a case. Unlike that script, this one draws
weights and tokens from PyTorch's and NumPy's generators, computes in fp32, and adds the gradients
of the ranks one after the other as a loop of one process does. F64=1 in the environment computes
in fp64 instead.
"""

import json
import math
import os
import struct
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, RANKS, MICRO_BATCHES, BATCH = 12, 4, 2, 2
T, V, LAYERS, HEADS, D = 32, 257, 3, 3, 48
SEED = 7
CONFIG = {
    "run.steps": STEPS,
    "launch.ranks": RANKS,
    "train.micro_batch_size": BATCH,
    "train.gradient_accumulation_steps": MICRO_BATCHES,
    "data.order": "sequential",
    "data.val_fraction": 0,
    "model.n_layer": LAYERS,
    "model.n_head": HEADS,
    "model.n_embd": D,
    "model.block_size": T,
    "model.vocab_size": V,
    "optimizer.lr": 1e-3,
    "optimizer.betas": [0.9, 0.95],
    "optimizer.eps": 1e-8,
    "optimizer.weight_decay": 0.1,
    "optimizer.gradient_clipping": 1.0,
}
# The first gradient of this weight is 9.4e-9 in fp64, a millionth of the terms that it is the sum
# of and just below Adam's epsilon: its first step is lr times anything between -1 and 1. PyTorch's
# fp32 and fp64 differ by 2.4e-5 of the largest weight here, and by less than 8e-6 everywhere else.
UNCERTAIN = ["h.0.attn.c_proj.weight[581]"]


class Conv1D(nn.Module):
    """Hugging Face's layout: weight [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.08)
        self.bias = nn.Parameter(torch.randn(outputs) * 0.02)

    def forward(self, x):
        return x @ self.weight + self.bias


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(D)
        self.ln_2 = nn.LayerNorm(D)
        self.attn = nn.Module()
        self.attn.c_attn = Conv1D(D, 3 * D)
        self.attn.c_proj = Conv1D(D, D)
        self.mlp = nn.Module()
        self.mlp.c_fc = Conv1D(D, 4 * D)
        self.mlp.c_proj = Conv1D(4 * D, D)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.attn.c_attn(self.ln_1(x)).split(D, 2)
        q, k, v = (t.view(B, T, HEADS, D // HEADS).transpose(1, 2) for t in (q, k, v))
        w = (q @ k.transpose(-1, -2)) / math.sqrt(D // HEADS)
        future = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
        w = w.masked_fill(future, float("-inf")).softmax(-1)
        x = x + self.attn.c_proj((w @ v).transpose(1, 2).reshape(B, T, D))
        h = self.mlp.c_fc(self.ln_2(x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        return x + self.mlp.c_proj(h)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(V, D)
        self.wpe = nn.Embedding(T, D)
        nn.init.normal_(self.wte.weight, std=0.08)
        nn.init.normal_(self.wpe.weight, std=0.02)
        self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(D)

    def forward(self, x, y):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            h = block(h)
        return F.cross_entropy((self.ln_f(h) @ self.wte.weight.T).view(-1, V), y.reshape(-1))


def save_safetensors(path, weights):
    header, blobs, offset = {}, [], 0
    for name, weight in weights.items():
        blob = weight.detach().numpy().astype(np.float32).tobytes()
        offsets = [offset, offset + len(blob)]
        header[name] = {"dtype": "F32", "shape": list(weight.shape), "data_offsets": offsets}
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def make_tokens():
    """A chain that a model can learn, with a random token in five."""
    count = STEPS * MICRO_BATCHES * RANKS * BATCH * T + 1
    tokens = np.random.default_rng(SEED).integers(0, V, count).astype(np.uint16)
    for i in range(1, count):
        if i % 5:
            tokens[i] = (int(tokens[i - 1]) * 31 + 7) % V
    return tokens


def train(model, tokens):
    """The rows of all ranks side by side: window ((step * micro-batches + m) * ranks + r) * BATCH * T."""
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": CONFIG["optimizer.weight_decay"]},
        {"params": others, "weight_decay": 0.0},
    ]
    betas, eps = tuple(CONFIG["optimizer.betas"]), CONFIG["optimizer.eps"]
    optimizer = torch.optim.AdamW(groups, lr=CONFIG["optimizer.lr"], betas=betas, eps=eps)
    rows = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for part in range(MICRO_BATCHES * RANKS):
            begin, size = (step * MICRO_BATCHES * RANKS + part) * BATCH * T, BATCH * T
            inputs = tokens[begin : begin + size].view(BATCH, T)
            targets = tokens[begin + 1 : begin + 1 + size].view(BATCH, T)
            loss = model(inputs, targets) / (MICRO_BATCHES * RANKS)
            loss.backward()
            total += loss.item()
        limit = CONFIG["optimizer.gradient_clipping"]
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item()
        optimizer.step()
        rows.append({"loss": total, "grad_norm": norm})
    return rows


def main(folder):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(SEED)
    torch.set_num_threads(2)
    model = GPT().double() if os.environ.get("F64") else GPT()
    save_safetensors(f"{folder}/model.safetensors", model.state_dict())
    tokens = make_tokens()
    with open(f"{folder}/tokens.bin", "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) + tokens.tobytes())
    rows = train(model, torch.from_numpy(tokens.astype(np.int64)))
    save_safetensors(f"{folder}/final.safetensors", model.state_dict())
    with open(f"{folder}/expected.json", "w") as file:
        json.dump({"config": CONFIG, "rows": rows, "uncertain": UNCERTAIN}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
