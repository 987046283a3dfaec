"""Writes GPT-2's tokens beside each text of expected.jsonl, by the algorithm that make_vocab.py uses.

Usage: python3 make_expected.py   (needs the package `regex`; reads vocab.bpe, rewrites expected.jsonl here)
"""
import json, pathlib, sys

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent / "vocab"))
from make_vocab import SYMBOLS, encode

merges = [tuple(line.split(" ")) for line in (FOLDER / "vocab.bpe").read_text().split("\n")[1:-1]]
encoder = {symbol: i for i, symbol in enumerate([*SYMBOLS.values(), *("".join(m) for m in merges)])}
ranks = {merge: i for i, merge in enumerate(merges)}
texts = [json.loads(line)["text"] for line in (FOLDER / "expected.jsonl").read_text().splitlines()]
rows = [json.dumps({"text": text, "ids": encode(text, encoder, ranks)}) + "\n" for text in texts]
(FOLDER / "expected.jsonl").write_text("".join(rows))
