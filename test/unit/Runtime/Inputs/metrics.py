#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of BLEU and ROUGE by the Python packages sacrebleu and rouge-score, of small corpora that are drawn at random.

Usage: metrics.py record > metrics.json       the corpora and values that the unit tests read
       metrics.py compare SLUICE [COUNT]      compares `sluice score` with the packages on COUNT (100) corpora

The tests need neither package: `python3 -m venv V; V/bin/pip install sacrebleu rouge-score` installs them for this script.
metrics.json is of sacrebleu 2.6.0 and rouge-score 0.1.2.
"""
import json
import logging
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from rouge_score import rouge_scorer
from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

TOLERANCE = 1e-6
# Seeds. The last three corpora depend on which of several longest common subsequences is taken.
RECORDED = (0, 3, 4, 5, 6, 7, 9, 11, 13, 14, 15, 20, 22, 23, 119, 207, 367)
WORDS = ("the water runs down to a sluice and through it one way only , never back . The WATER Runs "
         "na\u00efve \u0130stanbul 5\u212a \u65e5\u672c\u8a9e \u00bfqu\u00e9? x2 10.5 1,000 3.14. 7- -7 a-b 2-3 e.g. U.S.A. ... .. ,, don't "
         "it's \"quoted\" (so) [1] {x} <b> a/b 50% #1 @me *x* _y_ ~z~ `c` ^ | \\ + = $5 &amp; &lt;i&gt; &quot;hi&quot; "
         "&amp;lt; <skipped> a<skipped>b \u2026 \u2014 \u00ab.\u00bb \u3002 5\u066b5 \u0665.\u0665 \U0001f600. e\u0301, <q>").split(" ")
SPACES = (" ", " ", " ", " ", " ", " ", "  ", "\t", "\u00a0", "\u2003", "\u3000", "\x1c", "\x85", "\u200b", "\r", "\x0b", "\u2028")
INVALID = (b"\xff", b"\xe2\x80", b"\xed\xa0\x80", b"\xc2", b"\xc0\x80", b"\xf0\x9f\x98", b"\xe2\xc2\x85")


def draw_line(draw, words, plain, vocabulary=WORDS):
    """A line of at most `words` words; `plain` ones have single spaces."""
    count = draw.choice((0, 1, 2, 3, words, words, words)) if not plain else draw.randint(0, words)
    line = "".join(draw.choice(vocabulary) + (" " if plain else draw.choice(SPACES)) for _ in range(count))
    return line if draw.random() < 0.3 else line.strip()


def change(draw, line, rate):
    """The line with words left out, exchanged and swapped."""
    words = [word if draw.random() > rate else draw.choice(WORDS) for word in line.split(" ") if draw.random() > rate / 3]
    if len(words) > 1 and draw.random() < rate:
        at = draw.randrange(len(words) - 1)
        words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(words)


def break_bytes(draw, line):
    """The line with bytes that are not UTF-8, as surrogates."""
    data = line.encode()
    at = draw.randint(0, len(data))
    return (data[:at] + draw.choice(INVALID) + data[at:]).decode(errors="surrogateescape")


def draw_corpus(seed):
    draw = random.Random(seed)
    kind = seed % 8
    count, words = draw.randint(1, 12), draw.choice((3, 8, 8, 30))
    vocabulary = ("a", "b", "c", "<q>", "<q>") if kind == 7 else WORDS  # a, b, c: many longest common subsequences
    references = [[draw_line(draw, words, kind != 1, vocabulary) for _ in range(count)] for _ in range(draw.choice((1, 1, 2, 3)))]
    rate = draw.choice((0, 0.1, 0.3, 0.7))
    texts = [change(draw, draw.choice(references)[i], rate) for i in range(count)]
    if kind == 2:  # no text has a 4-gram
        texts = [" ".join(text.split()[:3]) for text in texts]
    if kind in (6, 7):  # in another order
        texts = [" ".join(draw.sample(words, len(words))) for words in map(str.split, texts)]
    if kind == 3 and seed % 16 == 3:
        texts = ["" for _ in texts]
    if kind == 4:  # some lines are empty, here and there
        texts = [text if draw.random() < 0.6 else "" for text in texts]
        references = [[line if draw.random() < 0.6 else "" for line in lines] for lines in references]
    if kind == 5:
        texts = [break_bytes(draw, text) for text in texts]
        references = [[break_bytes(draw, line) if draw.random() < 0.5 else line for line in lines] for lines in references]
    separator = draw.choice((None, "<q>", " . ", "\u2026"))
    if separator and separator != "<q>":
        texts, *references = [[line.replace("<q>", separator) for line in lines] for lines in (texts, *references)]
    return {"texts": texts, "references": references, "sentences": separator}


def score(corpus):
    """The values of both packages."""
    values = {}
    for tokenize in ("13a", "none"):
        result = BLEU(tokenize=tokenize).corpus_score(corpus["texts"], corpus["references"])
        values["bleu-" + tokenize] = result.score
        values["tokens-" + tokenize] = [result.sys_len, result.ref_len]
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeLsum"])
    split = (lambda line: line.replace(corpus["sentences"], "\n")) if corpus["sentences"] else (lambda line: line)
    scores = [scorer.score_multi([split(reference[i]) for reference in corpus["references"]], split(text))
              for i, text in enumerate(corpus["texts"])]
    for name in ("rouge1", "rouge2", "rougeLsum"):
        values[name] = [sum(getattr(one[name], part) for one in scores) / len(scores) for part in ("precision", "recall", "fmeasure")]
    return values


def encode(lines):
    return [line.encode(errors="surrogateescape").hex() for line in lines]


def record():
    corpora = []
    for seed in RECORDED:
        corpus = draw_corpus(seed)
        values = score(corpus)
        if seed % 8 == 5:  # JSON has no bytes
            corpus = corpus | {"hex": True, "texts": encode(corpus["texts"]), "references": [encode(lines) for lines in corpus["references"]]}
        corpora.append(corpus | {"values": values})
    draw = random.Random(1)
    lines = [draw_line(draw, 20, False) for _ in range(30)] + ["".join(draw.choice(".,-5 a\u00e9") for _ in range(12)) for _ in range(30)]
    tokens = [[line, Tokenizer13a()(line.rstrip()).split()] for line in lines]
    rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in corpora)
    token_rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in tokens)
    print(f'{{\n  "corpora": [\n{rows}\n  ],\n  "tokens_13a": [\n{token_rows}\n  ]\n}}')


def compare(sluice, count):
    worst, scored = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            corpus = draw_corpus(seed)
            files = []
            for lines in (corpus["texts"], *corpus["references"]):
                files.append(Path(folder, str(len(files))))
                files[-1].write_bytes("".join(line + "\n" for line in lines).encode(errors="surrogateescape"))

            def run(*flags):
                return json.loads(subprocess.run([sluice, "score", *files, *flags, "--json"], check=True, capture_output=True).stdout)

            values = score(corpus)
            for tokenize in ("13a", "none"):
                found = run("--tokenize", tokenize)
                pairs = [(found["bleu"], values["bleu-" + tokenize]),
                         *zip((found["tokens"], found["reference_tokens"]), values["tokens-" + tokenize])]
                scored += 0 < found["bleu"] < 100
                worst = check(worst, seed, pairs)
            found = run("--metric", "rouge", *(["--sentences", corpus["sentences"]] if corpus["sentences"] else []))
            for name in ("rouge1", "rouge2", "rougeLsum"):
                worst = check(worst, seed, zip((found["precision"][name], found["recall"][name], found[name]), values[name]))
    print(f"{count} corpora agree within {worst:.1e}; {scored} values of BLEU are between 0 and 100")


def check(worst, seed, pairs):
    for found, expected in pairs:
        if not abs(found - expected) <= TOLERANCE:
            sys.exit(f"corpus {seed}: expected {expected}, found {found}")
        worst = max(worst, abs(found - expected))
    return worst


if __name__ == "__main__":
    logging.getLogger("absl").setLevel(logging.ERROR)
    if sys.argv[1:] == ["record"]:
        record()
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "compare":
        compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 100)
    else:
        sys.exit(__doc__)
