#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the includes between the folders of include/sluice, lib and runtime.

Usage: scripts/check_includes.py [--graph] [ROOT]

A header under include/sluice belongs to the folder of its sources: include/sluice/Proof to lib/Proof, and include/sluice/Runtime
to runtime. Folders may not include one another in a cycle; a folder's own
sources may include the folders in it. lib/Support and runtime include no header of LLVM or MLIR, and of lib
only Support. Prints every violation, and exits with 1 if there is one. --graph prints the folders that each folder includes.
"""

import os
import re
import sys
from pathlib import Path

ROOTS = (("include/sluice/Runtime/", "runtime/"), ("include/sluice/", "lib/"), ("lib/", "lib/"), ("runtime/", "runtime/"))


def get_folder(path):
    """Returns the folder of a file: "lib/Proof" for include/sluice/Proof/Frontier.h."""
    for root, folder in ROOTS:
        if path.startswith(root):
            return os.path.dirname(folder + path[len(root):])
    return os.path.dirname(path)


def find_header(path, name, known):
    """Returns the file of an include; none for a generated header or one of another project."""
    near = os.path.normpath(os.path.join(os.path.dirname(path), name))
    return next((found for found in (near, "include/" + name, "lib/" + name, "runtime/" + name) if found in known), None)


def read_includes(root):
    """Returns {folder: {included folder: an include}}, and includes that the folder may not have."""
    files = {}
    for top in ("include/sluice", "lib", "runtime"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cpp", ".inc"):
                files[path.relative_to(root).as_posix()] = path
    graph, wrong = {}, []
    for path, file in files.items():
        folder = get_folder(path)
        edges = graph.setdefault(folder, {})
        plain = folder == "lib/Support" or folder.startswith("runtime")
        for name in re.findall(r'^#include [<"]([^>"]+)[>"]', file.read_text(), re.MULTILINE):
            header = find_header(path, name, files)
            if plain and name.startswith(("llvm/", "mlir/")):
                wrong.append(f"{path}: {name}: a header of the compiler's libraries")
            if header is None or (get_folder(header) + "/").startswith(folder + "/"):
                continue  # a folder's own sources may include its subfolders
            edges.setdefault(get_folder(header), f"{path}: {name}")
            if plain and get_folder(header).startswith("lib/") and (folder == "lib/Support" or get_folder(header) != "lib/Support"):
                wrong.append(f"{path}: {name}: a header of the compiler")
    return graph, wrong


def find_cycles(graph):
    """Returns the strongly connected components of more than one folder, by Tarjan's algorithm."""
    index, low, stack, cycles = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, {}):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(component) > 1:
                cycles.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return cycles


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--graph"]
    graph, wrong = read_includes(Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent)
    if "--graph" in sys.argv:
        for folder in sorted(graph):
            print(folder + ":", " ".join(sorted(graph[folder])))
    for cycle in find_cycles(graph):
        wrong.append("a cycle of includes between " + ", ".join(cycle) + ":")
        wrong += [f"  {folder} includes {other} ({include})"
                  for folder in cycle for other, include in sorted(graph[folder].items()) if other in cycle]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
