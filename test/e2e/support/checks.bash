# shellcheck shell=bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Functions that the end-to-end scripts share. Each check prints one line, "ok NAME" or "FAIL NAME", and what went wrong.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
sluice=$root/build/bin/sluice
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export root sluice work
failures=0

pass() { echo "ok $1"; }
fail() {
  echo "FAIL $1"
  shift
  printf '  %s\n' "$@"
  failures=$((failures + 1))
}

# succeeds NAME COMMAND...: exit status 0. Its output is in $work/out and $work/err.
succeeds() { exits 0 "$@"; }

# exits STATUS NAME COMMAND...
exits() {
  local expected=$1 name=$2 status=0
  shift 2
  "$@" > "$work/out" 2> "$work/err" || status=$?
  if [[ $status -eq $expected ]]; then
    pass "$name"
  else
    fail "$name" "command: $*" "exit status $status, expected $expected" "$(tail -n 5 "$work/err")"
  fi
}

# holds NAME EXPRESSION [JSON FILES...]: a Python expression over files, each read into a name of its own: f[0], f[1], ...
# A .jsonl file is a list of objects.
holds() {
  local name=$1 expression=$2 message
  shift 2
  if message=$(python3 - "$expression" "$@" 2>&1 << 'PYTHON'
import json, math, sys
def load(path):
    with open(path) as file:
        return [json.loads(line) for line in file] if path.endswith(".jsonl") else json.load(file)
f = [load(path) for path in sys.argv[2:]]
if not eval(sys.argv[1]):
    sys.exit("does not hold: " + sys.argv[1] + "\n" + "\n".join(repr(x)[:300] for x in f))
PYTHON
  ); then
    pass "$name"
  else
    fail "$name" "$message"
  fi
}

# path_without_ptxas: the PATH without the folders of ptxas, unless they have the linker too. Half of a compile for GPUs is ptxas, and
# the emulator runs no cubins; gpu-models.slow.sh and the tests of CUDA kernels assemble each kind of kernel.
path_without_ptxas() {
  tr : '\n' <<< "$PATH" | while read -r folder; do [[ -x $folder/ptxas && ! -x $folder/ld.lld ]] || printf '%s:' "$folder"; done
}

# is_representative SPEC: many rows of the papers' tables differ only in sizes, so tests use one of each kind.
is_representative() {
  case $1 in
    */papers/*) grep -qxF -- "$(basename "$1" .json)" "$root/test/paper-sample.txt" ;;
  esac
}

# write_text FILE BYTES SEED: words in a random order, the same for the same seed: something to learn in a few steps.
write_text() {
  python3 - "$@" << 'PYTHON'
import random, sys
path, size, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
words = "the water runs down to a sluice and through it one way only , never back .".split()
text = ""
while len(text) < size:
    text += draw.choice(words) + " "
with open(path, "w") as file:
    file.write(text[:size])
PYTHON
}

finish() { exit "$((failures > 0))"; }
