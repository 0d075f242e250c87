#!/usr/bin/env python3
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds wording in comments and documents that CONTRIBUTING.md advises against, names of the form `xOf`, and names of types that
more than two files define.

Usage: scripts/wording.py                counts of each pattern, per 1,000 words of comments
       scripts/wording.py FILE...        every match in these files
       scripts/wording.py --check        fails where a file has more matches than scripts/wording.json allows, or more than two
                                         files define a type of one name
       scripts/wording.py --update       lowers the numbers in scripts/wording.json to the matches that are left

scripts/wording.json holds the number of matches of each file that has any. It may only fall: a new file has none.
"""

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "scripts" / "wording.json"

# Pattern and what to write instead. Patterns apply to one comment or paragraph, lower case except for its first word.
PATTERNS = {
    "what it/the": (r"\bwhat (?:it|its|the|a|an|they|each|is|was|has)\b", "repeat the noun: \"the rows that the op reads\""),
    "says/tells": (r"\b(?:says?|tells?|(?:is|are) told)\b", "specifies, returns, reports"),
    "those of": (r"\b(?:those|that) of\b(?! (?:a|an|the) kind)", "repeat the noun: \"the keys of the coarse layer\""),
    "stands": (r"\b(?:stands?|lies)\b(?! for\b| alone\b)", "is, is stored, appears"),
    "behind": (r"\b(?:behind|in front of|beside)\b", "after, before, next to, in addition to"),
    "goes on": (r"\b(?:goes|go|going) on\b", "continues"),
    "made again": (r"\bmade (?:again|anew)\b", "recomputed, rematerialized"),
    "nobody": (r"\b(?:nobody|everybody|somebody)\b", "no caller, every user, another process"),
    "asks for": (r"\basks? for (?:rows|data|bytes|values)\b", "loads, prefetches, requests"),
    "turned round": (r"\bturned round\b", "inverted, reversed"),
    "first word": (r"^(?:Of|What|Whether|That)\b", "begin with a verb or the noun"),
}
NAME = re.compile(r"\b(?!getOf\b|isSubClassOf\b)([a-z][A-Za-z0-9]*Of)\(")  # without an accessor of MLIR and a function of LLVM
TYPE = re.compile(r"^( *)(?:template\s*<[^>]*>\s*)?(?:(?:struct|class|enum class|enum|union)\s+(?:\[\[\w+\]\]\s*|alignas\(\w+\)\s*)*"
                  r"(\w+)(?:\s+final)?\s*(?::(?!:)[^;{]*)?\{|using (\w+)\s*=)", re.M)
SOURCES = {".cpp": "//", ".h": "//", ".c": "//", ".td": "//", ".mlir": "//", ".py": "#", ".sh": "#", ".bash": "#"}


def read_comments(text, mark):
    """Yields (line, comment): adjacent comment lines are one, as is the comment after code."""
    start, words = 0, []
    pattern = re.compile(r"^(.*?)" + re.escape(mark) + r"[/!<]*(?:\s|$)(.*)$")
    for number, line in enumerate(text.split("\n"), 1):
        found = None if line.startswith("#!") else pattern.match(line)
        if found and found[1].strip() and re.search(r"[\"'`(]\S*$", found[1]):
            found = None  # in a string or a pattern of a test
        alone = found and not found[1].strip()
        if words and not (alone and found[2].strip()):
            yield start, " ".join(words)
            words = []
        if found and found[2].strip() and not re.match(r"(?:CHECK|RUN|Part of Sluice|expected-)", found[2].strip()):
            if not words:
                start = number
            words.append(found[2].strip())
            if not alone:
                yield start, " ".join(words)
                words = []
    if words:
        yield start, " ".join(words)


def read_descriptions(text):
    """Yields (line, description) of TableGen's [{ ... }] texts."""
    for found in re.finditer(r"(?:description|summary) = (?:\[\{(.*?)\}\]|\"([^\"]*)\")", text, re.S):
        line = text.count("\n", 0, found.start()) + 1
        prose = re.sub(r"```.*?```", "\n\n", found[1] or found[2] or "", flags=re.S)
        for paragraph in re.split(r"\n\s*\n", prose):
            yield line, " ".join(paragraph.split())


def read_paragraphs(text):
    """Yields (line, paragraph) of a Markdown page, without code."""
    blank = lambda found: "\n" * found[0].count("\n")
    text = re.sub(r"^ *```.*?^ *```", blank, text, flags=re.S | re.M)
    text = re.sub(r"<!-- keys .*?<!-- end -->", blank, text, flags=re.S)
    text = re.sub(r"^\| instead of \|.*?(?=^$)", blank, text, flags=re.S | re.M)  # CONTRIBUTING.md's own list
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        yield line, re.sub(r"`[^`]*`", "", " ".join(paragraph.split()))
        line += paragraph.count("\n")


def list_files():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    kept = [name for name in names if Path(name).suffix in {*SOURCES, ".md"} or name.endswith("CMakeLists.txt")]
    generated = ("docs/passes.md", "docs/keys.md", "docs/dialects/")  # from descriptions, which are read themselves
    return [name for name in kept if (ROOT / name).exists() and name != "scripts/wording.py" and not name.startswith(generated)]


def find(name):
    """Returns the matches of a file, (line, pattern, excerpt), and its number of words."""
    text = (ROOT / name).read_text(errors="replace")
    suffix = Path(name).suffix
    blocks = list(read_paragraphs(text) if suffix == ".md" else read_comments(text, SOURCES.get(suffix, "#")))
    if suffix == ".td":
        blocks += read_descriptions(text)
    matches = []
    for line, block in blocks:
        prose = block[:1] + block[1:].lower()
        for pattern, (regex, _) in PATTERNS.items():
            if pattern == "first word" and suffix == ".md":
                continue
            for found in re.finditer(regex, prose if pattern == "first word" else prose.lower()):
                matches.append((line, pattern, block[max(0, found.start() - 30):found.end() + 30]))
    if suffix in (".cpp", ".h"):
        names = {}
        for number, line in enumerate(text.split("\n"), 1):
            for name in NAME.findall(line):
                names.setdefault(name, number)
        matches += [(number, "xOf", name) for name, number in names.items()]
    return matches, sum(len(block.split()) for _, block in blocks)


def find_types(names):
    """Returns the files that define a type or an alias, by its name. A nested enumeration may be called `Kind`."""
    files = defaultdict(set)
    for name in names:
        if name.endswith((".cpp", ".h")):
            for indent, defined, alias in TYPE.findall((ROOT / name).read_text(errors="replace")):
                if not indent or (defined or alias) != "Kind":
                    files[defined or alias].add(name)
    return files


def main(arguments):
    if arguments and not arguments[0].startswith("--"):
        matches = [(name, *match) for name in arguments for match in find(name)[0]]
        for name, line, pattern, excerpt in matches:
            advice = PATTERNS[pattern][1] if pattern in PATTERNS else "getX, computeX, buildX, isX, hasX"
            print(f"{name}:{line}: {pattern}: \"{excerpt}\"; {advice}")
        return 1 if matches else 0
    if arguments not in ([], ["--check"], ["--update"]):
        print(f"unknown argument '{arguments[0]}'; see the head of scripts/wording.py", file=sys.stderr)
        return 2
    found = {name: find(name) for name in list_files()}
    counts = {name: len(matches) for name, (matches, _) in found.items() if matches}
    allowed = json.loads(ALLOWED.read_text()) if ALLOWED.exists() else {}
    grown = {name: count for name, count in counts.items() if count > allowed.get(name, 0)}
    if arguments == ["--update"]:
        left = {name: min(count, allowed.get(name, 0)) if allowed else count for name, count in sorted(counts.items())}
        ALLOWED.write_text(json.dumps({name: count for name, count in left.items() if count}, indent=0) + "\n")
        return 0
    if arguments == ["--check"]:
        for name, count in sorted(grown.items()):
            print(f"{name}: expected at most {allowed.get(name, 0)} places with wording that CONTRIBUTING.md advises against, "
                  f"found {count}; list them with scripts/wording.py {name}", file=sys.stderr)
        repeated = {name: files for name, files in find_types(found).items() if len(files) > 2}
        for name, files in sorted(repeated.items()):
            print(f"type {name}: expected at most two files that define it, found {len(files)}: {', '.join(sorted(files))}",
                  file=sys.stderr)
        return 1 if grown or repeated else 0
    words = sum(count for _, count in found.values())
    names = {match[2] for matches, _ in found.values() for match in matches if match[1] == "xOf"}
    for pattern, count in Counter(match[1] for matches, _ in found.values() for match in matches).most_common():
        print(f"{pattern:14}{count:6}{1000 * count / words:8.2f}" if pattern in PATTERNS else f"names xOf     {len(names):6}")
    print(f"{'words':14}{words:6}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
