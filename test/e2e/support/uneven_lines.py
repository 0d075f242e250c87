#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes lines of 1 and 11 letters, FOLDER/lines, and their first five letters as a second text, FOLDER/source.

Usage: uneven_lines.py FOLDER
"""
import random
import sys

draw = random.Random(5)
lines = ["".join(draw.choice("abcdef") for _ in range(draw.choice((1, 11)))) for _ in range(40)]
open(sys.argv[1] + "/lines", "w").write("\n".join(lines) + "\n")
open(sys.argv[1] + "/source", "w").write("\n".join(line[:5] for line in lines) + "\n")
