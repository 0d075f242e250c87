# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pairs of lines made of the words of docs/, for benchmarks of encoder-decoders.

All sources have the same number of pieces and of words, which fill the context with the line end. A target is its source with the words
after the first in reverse order. So no program has padding. Edges join each word but the first with one of the four words before it.
"""
import random
import re
import subprocess

import numpy as np

from order import mix, permute

PIECES = 4000
LINE_END = 11  # the id of byte 10
FIRST = "a"  # of each line: a word without a space before it


class MadeLines:
    """Files of lines and of their edges, a tokenizer, and arrays of both for programs other than Sluice."""

    def __init__(self, root, folder, sluice, per_word, count, context):
        self.sluice, self.folder = sluice, folder
        self.tokenizer, self.text = folder / "docs.tok", folder / "docs.txt"
        if not self.tokenizer.exists():
            self.text.write_bytes(b"".join(page.read_bytes() for page in sorted((root / "docs").rglob("*.md"))))
            self.run("tokenizer", "--data", self.text, "--vocabulary", PIECES, "-o", self.tokenizer)
        self.words = round((context - 1) / per_word)
        by_pieces = self.count_pieces()
        draw = random.Random(1)
        lines = [self.draw_line(draw, by_pieces, context - 1) for _ in range(count)]
        heads = [[word - draw.randint(1, min(word, 4)) for word in range(1, self.words)] for _ in lines]
        self.source = self.write(f"source-{per_word}", [" ".join(line) for line in lines])
        self.target = self.write(f"target-{per_word}", [" ".join([FIRST] + line[:0:-1]) for line in lines])
        self.links = self.write(f"links-{per_word}", [" ".join(f"{head}-{word}" for word, head in enumerate(line, 1)) for line in heads])
        self.arrays = folder / f"lines-{per_word}.npz"
        counts = [[self.pieces_of[word] for word in line] + [1] for line in lines]
        end = np.full((count, 1), LINE_END, np.int64)
        np.savez(self.arrays, source=np.concatenate([self.encode(self.source), end], 1),
                 target=np.concatenate([end, self.encode(self.target), end], 1),
                 words=np.stack([np.repeat(np.arange(len(line)), line) for line in counts]), heads=np.array(heads))

    def run(self, *arguments):
        subprocess.run([self.sluice, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def write(self, name, lines):
        path = self.folder / name
        path.write_text("".join(line + "\n" for line in lines))
        return path

    def encode(self, path):
        """The ids of a file's lines, all of one length, without their ends."""
        return np.array(self.encode_lines(path))

    def encode_lines(self, path):
        self.run("tokenizer", "--tokenizer", self.tokenizer, "--encode", path, "-o", self.folder / "ids.npy", "--force")
        ids = np.load(self.folder / "ids.npy").astype(np.int64)
        return [part[part != LINE_END] for part in np.split(ids, np.flatnonzero(ids == LINE_END) + 1)[:-1]]

    def count_pieces(self):
        """Words of docs/ of 1 to 4 pieces, by their number of pieces."""
        words = sorted(set(re.findall(r"(?<=\s)[!-~]+(?=\s)", self.text.read_text())))
        self.pieces_of = {FIRST: 1}
        by_pieces = {pieces: [] for pieces in range(1, 5)}
        for word, ids in zip(words, self.encode_lines(self.write("words", [f"{FIRST} {word}" for word in words]))):
            if len(ids) - 1 in by_pieces:
                by_pieces[len(ids) - 1].append(word)
                self.pieces_of[word] = len(ids) - 1
        self.pieces_of[FIRST] = 1
        return by_pieces

    def draw_line(self, draw, by_pieces, pieces):
        words, more = [], pieces - self.words
        while more:
            extra = draw.randint(1, min(3, more))
            words.append(draw.choice(by_pieces[1 + extra]))
            more -= extra
        words += [draw.choice(by_pieces[1]) for _ in range(self.words - 1 - len(words))]
        draw.shuffle(words)
        return [FIRST] + words


def lines_of_step(count, batch, step, seed=0):
    """The lines of a step, counted from 1, of the first epoch (docs/running.md)."""
    key = mix(seed ^ mix(0))
    return [permute(index, count, key) for index in range((step - 1) * batch, step * batch)]
