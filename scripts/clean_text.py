#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cleans text as text8 was made from Wikipedia (Mahoney 2006), by language as Nawrot et al. (2023, section 4.1): letters of the
language's script in lower case, digits spelled out, everything else a space, one space at a time; ends of lines stay.

Usage: clean_text.py --language en|fi|he|vi [--one-line] FILE ... > OUT
"""
import argparse
import re
import sys
import unicodedata

LATIN = "abcdefghijklmnopqrstuvwxyz"
LETTERS = {
    "en": LATIN,
    "fi": LATIN + "åäö",
    "he": "".join(map(chr, range(0x05D0, 0x05EB))),
    "vi": LATIN + "àáâãèéêìíòóôõùúýăđĩũơư" + "".join(map(chr, range(0x1EA1, 0x1EFA, 2))),
}
DIGITS = {
    "en": "zero one two three four five six seven eight nine",
    "fi": "nolla yksi kaksi kolme neljä viisi kuusi seitsemän kahdeksan yhdeksän",
    "he": "אפס אחת שתיים שלוש ארבע חמש שש שבע שמונה תשע",
    "vi": "không một hai ba bốn năm sáu bảy tám chín",
}
MARKERS = re.compile(r"_(START_(ARTICLE|SECTION|PARAGRAPH)|NEWLINE)_")  # of wiki40b


def clean(line, language):
    """One line, without its end."""
    line = unicodedata.normalize("NFKC", MARKERS.sub(" ", line)).lower()
    if language == "he":  # combining marks are not letters
        line = "".join(c for c in line if not unicodedata.combining(c))
    if language == "en":  # the letter under an accent
        line = "".join(c for c in unicodedata.normalize("NFD", line) if not unicodedata.combining(c))
    words = DIGITS[language].split()
    line = re.sub("[0-9]", lambda digit: f" {words[int(digit[0])]} ", line)
    kept = set(LETTERS[language])
    return " ".join("".join(c if c in kept else " " for c in line).split())


def main():
    parser = argparse.ArgumentParser(description="Cleans text as text8 was, by language.")
    parser.add_argument("--language", choices=sorted(LETTERS), required=True)
    parser.add_argument("--one-line", action="store_true", help="ends of lines become spaces, as in text8")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    between = ""
    for name in options.files:
        with open(name, encoding="utf-8") as file:
            for line in file:
                text = clean(line, options.language)
                if text:
                    sys.stdout.write(between + text)
                    between = " " if options.one_line else "\n"
    sys.stdout.write("\n" if between == "\n" else "")


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    main()
