#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Programs that run a model need no compiler: neither the runtime, directly or through others, nor an artifact.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

runtime=$root/build/lib/libsluice_runtime.so
readelf=$(command -v llvm-readelf-22 llvm-readelf readelf | head -n 1 || true)
nm=$(command -v llvm-nm-22 llvm-nm nm | head -n 1 || true)

# lacks NAME PATTERN FILE: no line of a nonempty file matches.
lacks() {
  if [[ ! -s $3 ]]; then
    fail "$1" "nothing was listed"
  elif grep -Eiq "$2" "$3"; then
    fail "$1" "$(grep -Ei "$2" "$3")"
  else
    pass "$1"
  fi
}

"$readelf" -d "$runtime" | grep NEEDED > "$work/needed"
lacks "the runtime is linked with no LLVM" 'llvm|mlir' "$work/needed"
ldd "$runtime" > "$work/all"
lacks "nor are its dependences" 'llvm|mlir|not found' "$work/all"

succeeds "compile" "$sluice" compile "$root/models/tiny/vanilla.json" -o "$work/model.sla"
# The trailer after the ELF part does not matter to these programs.
"$readelf" -d "$work/model.sla" > "$work/dynamic"
lacks "an artifact links no library" 'NEEDED' "$work/dynamic"
"$nm" -D "$work/model.sla" > "$work/symbols"
succeeds "the artifact defines its kernels" grep -Eq ' [tTD] .*([0-9a-f]+_cpu_avx(2|512)|sluice_plan)' "$work/symbols"
{
  echo "listed"
  grep ' U ' "$work/symbols" || true
} | sed -E '/ U mem(cpy|set|move)$/d' > "$work/undefined"
lacks "it refers to no symbol but memcpy, memset and memmove" ' U ' "$work/undefined"
finish
