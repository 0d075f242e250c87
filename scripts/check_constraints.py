#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the description of an op lists the numbered constraints that its verifier checks.

An op checks a constraint if a method of the op in lib/Dialect, or a function that takes the op, reports the number ("S-012:
...") at the op, or if a test expects an error with the number at the op; the op around it may then list the number.
Descriptions are in docs/dialects, which TableGen writes. Prints each op whose description lacks a number, and fails if there
is one.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NUMBER = r"[DPRS]-\d{3}"


def find_texts(top, suffixes):
    for folder, _, names in os.walk(os.path.join(ROOT, top)):
        for name in sorted(names):
            if name.endswith(suffixes):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    yield os.path.relpath(path, ROOT), file.read()


def read_descriptions():
    """Returns the numbers that the section of each op lists, the op of each dialect and C++ class, and numbers for all ops."""
    listed, classes, general = {}, {}, set()
    for _, text in find_texts("docs/dialects", ".md"):
        sections = re.split(r"^### `([a-z]+)\.([a-z_0-9.]+)` \((?:\w*::)*(\w+)\)$", text, flags=re.M)
        general.update(re.findall(rf"^- ({NUMBER}):", sections[0], re.M))
        for dialect, op, name, section in zip(*(sections[i::4] for i in range(1, 5))):
            section = re.split(r"^##? ", section, flags=re.M)[0]
            listed[f"{dialect}.{op}"] = set(re.findall(rf"^\s*- ({NUMBER}):", section, re.M))
            classes[dialect, name] = f"{dialect}.{op}"
    return listed, classes, general


def find_op(line):
    op = re.search(r"^ *(?:%[^=]*= )?\"?((?:sluice|dispatch|plan|spec)\.[a-z_.]+)", line)
    return op and op[1]


def find_checked(classes):
    """Yields constraints that are checked: the op, the ops around it, the number, and the place of the message or test."""
    function = re.compile(r"^[\w:<> ]*?\b(?:(\w+Op)::\w+\(|\w+\((\w+Op) (\w+)).*?^}", re.M | re.S)
    message = re.compile(rf'(?:(\w+)(?:\.|->))?emit(?:Op)?Error\((?:\)\s*<<\s*)?"({NUMBER}): ')
    for path, text in find_texts("lib/Dialect", ".cpp"):
        dialect = path.split("/")[2].lower()
        for match in function.finditer(text):
            op = classes.get((dialect, match[1] or match[2]))
            for receiver, number in message.findall(match[0]):
                if op and receiver == (match[3] or ""):
                    yield op, (), number, path
    for path, text in find_texts("test", ".mlir"):
        lines = text.split("\n")
        for index, line in enumerate(lines):
            error = re.search(rf"expected-error ?(?:@([+-]\d+) )?\{{\{{.*?({NUMBER}):", line)
            place = index + int(error[1] or 0) if error else 0
            if not error or not find_op(lines[place]):
                continue
            around, indent = [], len(lines[place]) - len(lines[place].lstrip())
            for outer in reversed(lines[:place]):
                if outer.strip() and not outer.lstrip().startswith("^") and len(outer) - len(outer.lstrip()) < indent:
                    indent = len(outer) - len(outer.lstrip())
                    around.append(find_op(outer))
            yield find_op(lines[place]), around, error[2], f"{path}:{index + 1}"


def main():
    listed, classes, general = read_descriptions()
    pairs, missing = set(), {}
    for op, around, number, place in find_checked(classes):
        pairs.add((op, number))
        if number not in general and not any(number in listed.get(each, ()) for each in (op, *around)):
            missing.setdefault((op, number), place)
    for (op, number), place in sorted(missing.items()):
        print(f"{place}: expected {number} in the description of {op}, found none; list it in the op's .td file")
    print(f"{len(pairs) - len(missing)} of {len(pairs)} numbered constraints are in the description of their op")
    return int(bool(missing) or not pairs)


if __name__ == "__main__":
    sys.exit(main())
