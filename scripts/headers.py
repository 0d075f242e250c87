#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a reader finds declarations, and that a class is small.

A function of X.cpp is declared in X.h, in the header that has its folder's name, or in its folder's only header. Functions
that no header declares and methods are not counted. In the folders of COMPLETE every function is declared so; in those of
CLASSES a class has at most MOST_METHODS methods, in one source; docs/architecture.md has the reasons for EXCEPTIONS.
Without an argument prints the share of the tree and the functions that are declared elsewhere; --check fails if the share
is below BAR or a folder of COMPLETE or CLASSES differs.
"""
import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BAR = 0.97  # share of functions of the whole tree
COMPLETE = ("Analysis", "Oracle", "Runtime", "Support", "Target")  # folders whose functions are all declared in such a header
CLASSES = ("Analysis", "Certificate", "Conversion", "Dialect", "Driver", "Editor", "Emulator", "EmulatorPlugin", "Explain",
           "Oracle", "Picture", "Proof", "Runtime", "Spec", "Step", "Support", "Target", "Transforms",
           "tools")  # folders whose classes are small
MOST_METHODS = 20
EXCEPTIONS = {"CudaDevice", "Deriver", "Emitter", "StageContext"}  # classes with more methods or sources
SOURCES = ("lib", "runtime", "tools")


def find_files(suffix):
    for top in ("include/sluice", *SOURCES):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith(suffix):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def get_module(path):
    """Returns a file's path without its suffix and its top folder; include/ and lib/ mirror each other."""
    module = os.path.splitext(path)[0]
    for top, name in (("include/sluice/", ""), ("lib/", ""), ("runtime/", "Runtime/"), ("tools/", "tools/")):
        if module.startswith(top):
            return name + module[len(top):]
    return module


def read_code(path):
    """Returns a file's text without comments, literals and preprocessor lines, on the same lines."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^#(?:[^\n]*\\\n)*[^\n]*'
    return re.sub(pattern, lambda match: "\n" * match[0].count("\n"), text, flags=re.S | re.M)


def find_end(text, start, opening, closing):
    """Returns the index after the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == opening) - (text[index] == closing)
        if depth == 0:
            return index + 1
    return len(text)


def find_functions(text):
    """Yields qualifier, name and line of each function with external linkage that a source defines, but specializations."""
    hidden = []
    for match in re.finditer(r"^namespace\s*\{", text, re.M):
        hidden.append((match.start(), find_end(text, match.end() - 1, "{", "}")))
    # An explicit specialization is declared where its template is.
    local = r"static\b|template\s*<\s*>|template\s*<[^;{()]*>\s*static\b|using\b|namespace\b|struct\b|class\b"
    for match in re.finditer(rf"^(?!{local})[A-Za-z_][\w:<>,&*\s]*?[\s&*>]((?:\w+::)*)(\w+)\(", text, re.M):
        if any(start <= match.start() < end for start, end in hidden):
            continue
        after = find_end(text, match.end() - 1, "(", ")")
        if re.match(r"\s*(const\s*)?(noexcept\s*)?\{", text[after:after + 80]):
            yield match[1], match[2], text.count("\n", 0, match.start(2)) + 1


def is_own(source, header, headers):
    folder, base = os.path.split(source)
    if folder == "Interface" and header == "sluice":  # the header of the C interface, for users
        return True
    if headers[folder] == [header]:
        return True
    folders = [folder]
    if folder.startswith("Dialect/") and folder.count("/") == 2:  # a dialect's sources have folders, its headers are in one
        folders.append(os.path.dirname(folder))
    return any(header in (os.path.join(f, base), f, os.path.join(f, os.path.basename(f))) for f in folders)


def measure():
    """Returns counts of functions by folder, and those that are declared elsewhere."""
    declared, headers = collections.defaultdict(set), collections.defaultdict(list)
    for path in find_files(".h"):
        headers[os.path.dirname(get_module(path))].append(get_module(path))
        for name in re.findall(r"\b([a-z]\w*)\(", read_code(path)):
            declared[name].add(get_module(path))
    counts, elsewhere = collections.Counter(), []
    for path in find_files(".cpp"):
        source = get_module(path)
        for qualifier, name, line in find_functions(read_code(path)):
            is_method = re.search(r"[A-Z]\w*::$", qualifier)
            if is_method or name[0].isupper() or not declared[name]:
                continue
            counts[os.path.dirname(source)] += 1
            if not any(is_own(source, header, headers) for header in declared[name]):
                elsewhere.append((path, line, name, sorted(declared[name])))
    return counts, elsewhere


def find_classes(text):
    """Yields name, number of methods and line of each class of a file; constructors are not counted."""
    head = r"\b(?:class|struct)\s+(?:\w+::)*(\w+)(?:\s*<[^;{()]*>)?(?:\s+final)?\s*(?::(?!:)[^;{()]*)?\{"
    for match in re.finditer(head, text):
        body, depth = "", 0
        for letter in text[match.end():find_end(text, match.end() - 1, "{", "}") - 1]:
            body += ";" if letter == "{" and depth == 0 else letter if depth == 0 and letter != "}" else ""
            depth += (letter == "{") - (letter == "}")
        methods = 0
        for statement in re.split(r";|(?:public|private|protected):", body):
            for _ in range(3):
                statement = re.sub(r"<[^<>]*>", "", statement)
            # A `(` before a `*` begins a pointer to a function.
            found = re.match(r"[^=(]*?[\s*&~](operator\S+|\w+)\s*\((?!\s*(?:\w+::)*\*)", " " + " ".join(statement.split()))
            other = re.match(r"\s*(friend|using|class|struct|enum)\b", statement) or "= delete" in statement
            methods += bool(found and not other and found[1] != match[1])
        yield match[1], methods, text.count("\n", 0, match.start()) + 1


def find_large_classes():
    """Returns messages about classes of CLASSES with many methods or several sources."""
    messages, declared, sources = [], {}, collections.defaultdict(set)
    for suffix in (".h", ".cpp"):
        for path in find_files(suffix):
            if not get_module(path).startswith(tuple(folder + "/" for folder in CLASSES)):
                continue
            text = read_code(path)
            for name, methods, line in find_classes(text):
                if suffix == ".h":
                    declared[os.path.dirname(get_module(path)), name] = path
                if methods > MOST_METHODS and name not in EXCEPTIONS:
                    messages.append(f"{path}:{line}: expected at most {MOST_METHODS} methods of {name}, found {methods}")
            for match in re.finditer(r"^(?!\s)[^\n;={}#]*?\b([A-Z]\w*)::~?\w+\(", text, re.M):
                sources[os.path.dirname(get_module(path)), match[1]].add(path)
    for key, paths in sorted(sources.items()):
        modules = {get_module(path) for path in paths}  # templates are in the header of the source
        if key in declared and key[1] not in EXCEPTIONS and len(modules) > 1:
            messages.append(f"{declared[key]}: expected the methods of {key[1]} in one source, found them in "
                            f"{', '.join(sorted(paths))}")
    return messages


def main():
    counts, elsewhere = measure()
    total = sum(counts.values())
    share = 1 - len(elsewhere) / total
    check = sys.argv[1:] == ["--check"]
    wrong = [entry for entry in elsewhere if get_module(entry[0]).startswith(tuple(f + "/" for f in COMPLETE))]
    for path, line, name, headers in wrong if check else elsewhere:
        stem = os.path.splitext(os.path.basename(path))[0]
        print(f"{path}:{line}: expected a declaration of `{name}` in {stem}.h, found it in "
              f"{', '.join(headers[:4])}")
    large = find_large_classes()
    for message in large:
        print(message)
    if not check:
        print(f"{total - len(elsewhere)} of {total} functions ({share:.1%}) are declared in the header of their source")
    elif share < BAR:
        print(f"expected at least {BAR:.0%} of functions declared in the header of their source, found {share:.1%}")
    return int(check and (bool(wrong or large) or share < BAR))


if __name__ == "__main__":
    sys.exit(main())
