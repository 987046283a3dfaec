"""Makes a small vocabulary in GPT-2's file formats, and texts with the tokens that GPT-2's algorithm gives them.

Usage: python3 make_vocab.py   (needs the package `regex`; writes encoder.json, vocab.bpe and expected.jsonl here)
"""
import collections, json, pathlib, regex

PATTERN = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
NUM_MERGES = 120
TRAINING = """The quick brown fox jumps over the lazy dog, and the dog doesn't mind; they've seen it before. We'll see it
again in 1984 or 2001, I'm sure: the fox's at it, over and over and over. Où est le café? Там, где всегда. 日本語もある。
    if (the_fox) { jump(over(the_dog)); }    // 100 times
""" * 3
TEXTS = ["", " ", "  ", "\n\n x", "the fox", " the  fox ", "over and over", "don't we'll 'S 'Re 're", "aaaaaaa",
         "1984 2001x", "café日本語", "\u00a0nbsp \u2003em\u3000", "a\u180eb", "\x1c\x1dx", "<|endoftext|>", "\t\tthe\r\n",
         "e\u0301 \U0001F642\u200d\U0001F469", "²³½Ⅷ x²", "'''s ''ll"]

def byte_symbols():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}

SYMBOLS = byte_symbols()

def merge_once(word, pair):
    out, i = [], 0
    while i < len(word):
        both = tuple(word[i:i + 2]) == pair
        out.append("".join(pair) if both else word[i])
        i += 2 if both else 1
    return out

def words(text):
    return [[SYMBOLS[b] for b in word.encode()] for word in PATTERN.findall(text)]

def encode(text, encoder, ranks):
    ids = []
    for word in words(text):
        while len(word) > 1:
            pair = min(zip(word, word[1:]), key=lambda p: ranks.get(p, 1e9))
            if pair not in ranks:
                break
            word = merge_once(word, pair)
        ids += [encoder[s] for s in word]
    return ids

def main():
    folder = pathlib.Path(__file__).parent
    corpus, merges = words(TRAINING), []
    for _ in range(NUM_MERGES):
        counts = collections.Counter(p for word in corpus for p in zip(word, word[1:]))
        pair = max(counts, key=lambda p: (counts[p], p))
        merges.append(pair)
        corpus = [merge_once(word, pair) for word in corpus]
    symbols = list(dict.fromkeys([*SYMBOLS.values(), *("".join(m) for m in merges), "<|endoftext|>"]))
    encoder = {s: i for i, s in enumerate(symbols)}
    ranks = {m: i for i, m in enumerate(merges)}
    (folder / "encoder.json").write_text(json.dumps(encoder) + "\n")
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    rows = [json.dumps({"text": t, "ids": encode(t, encoder, ranks)}) + "\n" for t in TEXTS]
    (folder / "expected.jsonl").write_text("".join(rows))

if __name__ == "__main__":
    main()
