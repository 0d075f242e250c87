#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Labels for a predictor of segments, as Nawrot et al. (2023, sections 3.1.2 and 3.1.3) train it: for each byte of a text "1" where a
segment ends with it, "0" elsewhere. docs/running.md says what they are; `sluice train --labels NAME=FILE` takes them.

Usage: boundary_labels.py train --size N --out NAME TEXT ...             writes NAME.model and NAME.vocab (needs sentencepiece)
       boundary_labels.py unigram --vocabulary NAME.vocab TEXT > LABELS
       boundary_labels.py entropy LOGITS.npy > LABELS                    of the same text, from sluice logits
"""
import argparse
import array
import ast
import math
import struct
import sys

WHITESPACE = "\t\n\v\f\r "
MARK = "\u2581"  # sentencepiece's mark for the space before a word
UNKNOWN = 10  # a character in no piece scores like the worst piece, less this


def train(options):
    try:
        import sentencepiece
    except ImportError:
        sys.exit("boundary_labels.py train: expected the Python package sentencepiece, found none; install it, or write NAME.vocab by "
                 "another program: a line for each piece, with a tab and its logarithm of a probability behind it")
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(options.files), model_prefix=options.out, vocab_size=options.size, model_type="unigram",
        normalization_rule_name="identity", character_coverage=1.0, hard_vocab_limit=False)


def read_vocabulary(path):
    """Scores by piece."""
    pieces = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            piece, tab, score = line.rstrip("\n").rpartition("\t")
            try:
                pieces[piece] = float(score)
            except ValueError:
                tab = ""
            if not tab:
                sys.exit(f"{path}:{number}: expected a piece, a tab and a number, found {line.rstrip()!r}")
    for name in ("<unk>", "<s>", "</s>"):  # of sentencepiece, no text
        pieces.pop(name, None)
    if not pieces:
        sys.exit(f"{path}: expected pieces with scores, found none")
    return pieces


def cut(word, pieces, longest, unknown):
    """Ends of the pieces, with the greatest sum of scores, that a word consists of. As in sentencepiece, characters one after the other
    that no piece has are one piece."""
    best = [(0.0, 0)] + [(-math.inf, 0)] * len(word)
    for end in range(1, len(word) + 1):
        for start in range(max(0, end - longest), end):
            score = pieces.get(word[start:end], unknown if end - start == 1 else -math.inf)
            best[end] = max(best[end], (best[start][0] + score, start))
    ends, end, was_unknown = [], len(word), False
    while end > 0:
        start = best[end][1]
        is_unknown = word[start:end] not in pieces
        if not (is_unknown and was_unknown):
            ends.append(end)
        end, was_unknown = start, is_unknown
    return ends[::-1]


def label_pieces(text, pieces, word_end="letter", as_code=False):
    """By character: 1 at the last of each piece. word_end "letter": a word is cut with the whitespace before it, and other whitespace is a
    piece of its own. "whitespace": a word's last piece ends with the whitespace after it; without one it does not end.

    as_code: what the public code labels. Its words are separated by spaces alone, and the inner pieces of the text's first word end one
    character late."""
    longest, unknown = max(map(len, pieces)), min(pieces.values()) - UNKNOWN
    spaces = " " if as_code else WHITESPACE
    labels, known, start = [0] * len(text), {}, 0
    while start < len(text):
        first = start + (text[start] in spaces)
        end = first
        while end < len(text) and text[end] not in spaces:
            end += 1
        word = text[first:end]
        if word not in known:
            known[word] = cut(MARK + word, pieces, longest, unknown)
        if word_end == "whitespace" and first > start:
            labels[start] = 1
        elif not word:
            labels[start] = 1
        late = int(as_code and start == first == 0)
        for length in known[word] if word else ():
            last = first + length - 2  # of a piece: the mark is not a character of the word
            if word_end == "whitespace":
                if first <= last < end - 1:
                    labels[last + late] = 1
            elif last >= start:  # else only the mark, without its space at the text's start
                labels[last] = 1
        start = max(end, start + 1)
    return labels


def label_unigram(options):
    pieces = read_vocabulary(options.vocabulary)
    with open(options.text, "rb") as file:
        text = file.read().decode("utf-8", "surrogateescape")
    as_code = options.mode == "reference-code"
    if as_code and options.word_end == "letter":
        sys.exit("boundary_labels.py unigram: expected --word-end whitespace with --mode reference-code, found letter; leave one of them out")
    labels = label_pieces(text, pieces, "whitespace" if as_code else options.word_end or "letter", as_code)
    for character, label in zip(text, labels):  # at the last byte of a character
        size = len(character.encode("utf-8", "surrogateescape"))
        sys.stdout.write("0" * (size - 1) + str(label))


def read_rows(path):
    """Rows of a two-dimensional array of f32, one by one."""
    with open(path, "rb") as file:
        start = file.read(10)
        if start[:6] != b"\x93NUMPY":
            sys.exit(f"{path}: expected an array of sluice logits, found another file")
        more = file.read(2) if start[6] > 1 else b""
        size = struct.unpack("<H", start[8:10])[0] if not more else struct.unpack("<I", start[8:10] + more)[0]
        header = ast.literal_eval(file.read(size).decode("latin1"))
        if header["descr"] != "<f4" or header["fortran_order"] or len(header["shape"]) != 2:
            sys.exit(f"{path}: expected rows of f32, found {header['descr']} {header['shape']}")
        count, width = header["shape"]
        for _ in range(count):
            row = array.array("f")
            row.fromfile(file, width)
            yield row


def entropy(logits):
    """Of the distribution that a row predicts, in nats."""
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    total = sum(weights)
    return math.log(total) - sum(w * (x - top) for w, x in zip(weights, logits)) / total


def label_spikes(entropies, window, as_code=False):
    """Row r spikes where its entropy is above that of each of the `window` rows before it, of those that there are. The paper's entropy
    of token t is that of row t - 1, so token t ends a segment where row t - 1 spikes; in its code, where row t does, and token 0 does."""
    spikes = [int(r > 0 and all(h > before for before in entropies[max(0, r - window):r])) for r, h in enumerate(entropies)]
    return [1] + spikes[1:] if as_code else [0] + spikes[:-1]


def label_entropy(options):
    labels = label_spikes([entropy(row) for row in read_rows(options.logits)], options.window, options.mode == "reference-code")
    sys.stdout.write("".join(map(str, labels)))


def main():
    parser = argparse.ArgumentParser(description="Labels for a predictor of segments.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("train", help="train a unigram vocabulary with sentencepiece")
    command.add_argument("--size", type=int, required=True, help="pieces: 10000 in the paper for English and Vietnamese, else 200")
    command.add_argument("--out", required=True, metavar="NAME")
    command.add_argument("files", nargs="+", metavar="TEXT")
    command.set_defaults(run=train)
    command = commands.add_parser("unigram", help="where the likeliest pieces of a text end")
    command.add_argument("--vocabulary", required=True, metavar="NAME.vocab")
    command.add_argument("--word-end", choices=["letter", "whitespace"],
                         help="a word's last piece ends with its last letter (default), or with the whitespace after it (reference-code)")
    command.add_argument("text", metavar="TEXT")
    command.set_defaults(run=label_unigram)
    spikes = commands.add_parser("entropy", help="where a model's entropy spikes")
    spikes.add_argument("--window", type=int, default=2, help="rows before that a spike is above (default: 2)")
    spikes.add_argument("logits", metavar="LOGITS.npy")
    spikes.set_defaults(run=label_entropy)
    for each in (command, spikes):
        each.add_argument("--mode", choices=["paper", "reference-code"], default="paper", help="where the two differ (docs/papers.md)")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
