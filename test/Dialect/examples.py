#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the examples of a dialect's page as modules that sluice-opt reads with -split-input-file.

Usage: examples.py PAGE. Fails where an op of the page has no example that contains the op.

An example is a module, or symbols, or statements of a function. Symbols and statements are part of the module in the
dialect's description, if there is one. Values that no statement defines are arguments of the function, with the types
that the statement lists.
"""
import re
import sys

FENCE = re.compile(r"^```mlir\n(.*?)^```$", re.M | re.S)


def split_statements(text):
    """Returns the statements of `text`: each begins in column 0, outside braces."""
    statements, depth = [], 0
    for line in text.splitlines():
        if depth == 0 and re.match(r"[%a-z]", line):
            statements.append("")
        statements[-1] += line + "\n"
        depth += line.count("{") - line.count("}")
    return statements


def split_types(text):
    """Returns the types of a list, separated by commas outside brackets."""
    types, depth = [""], 0
    for at, letter in enumerate(text):
        depth += letter in "<({" or -(letter in ")}" or (letter == ">" and text[at - 1] != "-"))
        if letter == "," and depth == 0:
            types.append("")
        else:
            types[-1] += letter
    return [kind.strip() for kind in types]


def find_operands(statement):
    """Returns pairs of a name and its type for the operands of a statement, and the names that it defines."""
    text = " ".join(statement.split())
    while (shorter := re.sub(r"\{[^{}]*\}", " ", text)) != text:
        text = shorter
    results, _, text = text.rpartition(" = ") if text.startswith("%") else ("", "", text)
    body, _, types = text.rpartition(" : ")
    operands = re.findall(r"%\w+", body or text)
    types = types.split(" -> ")[0].strip()
    types = split_types(types[1:-1] if types.startswith("(") else types)
    types += types[-1:] * (len(operands) - len(types))
    return list(zip(operands, types)), re.findall(r"%\w+", results)


def complete(example, setting):
    """Returns a module that contains the example."""
    if example.startswith("module"):
        return example
    symbols, statements, arguments, defined = "", "", {}, set()
    for statement in split_statements(example):
        operands, results = find_operands(statement)
        if not operands and not results and re.match(r"[a-z.]+ [@\"]", statement):
            symbols += statement
            continue
        for name, kind in operands:
            if name not in defined:
                arguments.setdefault(name, kind)
        defined.update(results)
        statements += statement
    if statements:
        listed = ", ".join(f"{name}: {kind}" for name, kind in arguments.items())
        symbols += f"func.func @example({listed}) {{\n{statements}return\n}}\n"
    head, _, tail = setting.rstrip().rpartition("}")
    return head + symbols + "}" + tail + "\n"


def main(page):
    with open(page, encoding="utf-8") as file:
        parts = re.split(r"^### `", file.read(), flags=re.M)
    settings = [fence for fence in FENCE.findall(parts[0]) if fence.startswith("module")]
    modules, missing = settings[:], []
    for part in parts[1:]:
        name = part.split("`")[0]
        if not part.startswith(name + "` (::"):
            continue  # an attribute or a type, of which no statement is an example
        examples = FENCE.findall(part.split("\n### ")[0])
        if not any(re.search(re.escape(name) + r"(?![\w.])", example) for example in examples):
            missing.append(name)
        modules += [complete(example, settings[0] if settings else "module {\n}\n") for example in examples]
    if missing:
        sys.exit(f"{page}: expected an example of each op, found none of {', '.join(missing)}")
    print("// -----\n".join(modules), end="")


if __name__ == "__main__":
    main(sys.argv[1])
