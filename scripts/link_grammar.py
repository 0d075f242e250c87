#!/usr/bin/python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a CoNLL-U file with a sentence for each line of an English text: the links of the parser link-grammar, as heads in DEPS.

Links form no tree, so HEAD is `_`. Words are those between white space. A link to a wall, or inside one word, is left out; a line that
the parser cannot link within the limit has no heads, and a note names it. Needs Debian's package python3-link-grammar.

Usage: link_grammar.py [--seconds 5] TEXT > LINKS.conllu
"""
import argparse
import os
import re
import sys

try:
    import linkgrammar.clinkgrammar as clg
    from linkgrammar import Dictionary, LG_Error, ParseOptions, Sentence
except ImportError:
    sys.exit("link_grammar.py: expected the package python3-link-grammar, found no module linkgrammar; install it, and run the script "
             "with /usr/bin/python3")

WORD = re.compile(r"[^\t-\r ]+")
WALLS = {"LEFT-WALL", "RIGHT-WALL"}


def find_links(line, dictionary, seconds):
    """Pairs of character offsets that links connect; None if the parser has no result."""
    for nulls in (0, 250):  # words without a link, only if no parse links all
        options = ParseOptions(verbosity=0, max_null_count=nulls, max_parse_time=seconds)
        try:
            linkages = Sentence(line, dictionary, options).parse()
        except LG_Error:  # the time limit, or more words than the parser takes
            continue
        for linkage in linkages:
            starts = [clg.linkage_get_word_char_start(linkage._obj, i) for i in range(linkage.num_of_words())]
            ends = [(clg.linkage_get_link_lword(linkage._obj, i), clg.linkage_get_link_rword(linkage._obj, i))
                    for i in range(linkage.num_of_links())]
            return [(starts[u], starts[v]) for u, v in ends if not {linkage.word(u), linkage.word(v)} & WALLS]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("text", help="English text; - is the standard input")
    parser.add_argument("--seconds", type=int, default=5, help="time limit of a line")
    flags = parser.parse_args()
    if flags.text == "-":
        sys.stdin.reconfigure(encoding="utf-8", newline="\n")
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the library prints remarks to the standard output
    dictionary = Dictionary("en")
    with sys.stdin if flags.text == "-" else open(flags.text, encoding="utf-8", newline="\n") as file:
        try:
            lines = file.read().split("\n")
        except UnicodeDecodeError as error:
            sys.exit(f"{flags.text}: expected a text in UTF-8, found {error.reason} at byte {error.start}; convert it, with iconv -t UTF-8")
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        words = list(WORD.finditer(line))
        if not words:
            sys.exit(f"{flags.text}:{number}: expected a word, found an empty line, which CoNLL-U cannot have; leave the line out of this file and of those whose lines belong to it")
        word_at = {place: index for index, word in enumerate(words, 1) for place in range(*word.span())}
        links = find_links(line, dictionary, flags.seconds)
        if links is None:
            print(f"{flags.text}:{number}: the parser found no links", file=sys.stderr)
        heads = {}
        for start, end in links or []:
            if word_at[start] != word_at[end]:
                heads.setdefault(word_at[end], set()).add(word_at[start])
        print(f"# text = {' '.join(word.group() for word in words)}", file=out)
        for index, word in enumerate(words, 1):
            deps = "|".join(f"{head}:link" for head in sorted(heads.get(index, ()))) or "_"
            print("\t".join([str(index), word.group(), "_", "_", "_", "_", "_", "_", deps, "_"]), file=out)
        print(file=out)
    out.close()


if __name__ == "__main__":
    main()
