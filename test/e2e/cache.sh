#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The cache of compiled kernels: artifacts are the same bytes with an empty cache, a full one, a partial one, a damaged one and
# none. Paths that cannot be written. GPU kernels, with other assemblers and two processes. The default target, and an artifact
# without this machine's instructions.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

cat > "$work/spec.json" << 'SPEC'
{
  "sluice": 1, "name": "cached", "vocabulary": 128, "context": 16, "batch": 2, "width": 16,
  "stages": [ { "op": "embedding" }, { "op": "head" } ]
}
SPEC
export SLUICE_KERNEL_CACHE=$work/kernels
# shellcheck disable=SC2317 # checks call it
compile() { "$sluice" compile "$work/spec.json" "$@"; }
# same NAME: the last artifact equals the first, byte for byte.
same() {
  if cmp -s "$work/cold.sla" "$work/other.sla"; then pass "$1"; else fail "$1" "the artifacts differ"; fi
}
entries() { find "${1:-$SLUICE_KERNEL_CACHE}" -type f -name '*.kernel' | wc -l; }

succeeds "cold" compile -o "$work/cold.sla"
count=$(entries)
if ((count > 8)); then pass "kernels are stored"; else fail "kernels are stored" "$count entries"; fi
touch -d '2001-01-01' "$SLUICE_KERNEL_CACHE"/*.kernel
start=$(date +%s%N)
succeeds "warm" compile -o "$work/other.sla"
milliseconds=$((($(date +%s%N) - start) / 1000000))
same "warm: the same bytes"
old=$(find "$SLUICE_KERNEL_CACHE" -name '*.kernel' ! -newermt '2002-01-01' | wc -l)
if ((old == 0)); then pass "every entry was used"; else fail "every entry was used" "$old were not, in $milliseconds ms"; fi
succeeds "off" compile --kernel-cache off -o "$work/other.sla"
same "off: the same bytes"
succeeds "OFF" compile --kernel-cache OFF -o "$work/other.sla"
if [[ -e OFF ]]; then fail "OFF creates no directory"; else pass "OFF creates no directory"; fi

# damage FOLDER: changes entries in turn: removed, truncated, a bit flipped, another one's contents,
# empty, a directory.
damage() {
  python3 - "$1" << 'PYTHON'
import pathlib, sys
names = sorted(pathlib.Path(sys.argv[1]).glob("*.kernel"))
for i, name in enumerate(names):
    contents = name.read_bytes()
    if i % 7 == 0: name.unlink()
    elif i % 7 == 1: name.write_bytes(contents[:-1])
    elif i % 7 == 2: name.write_bytes(contents[:300] + bytes([contents[300] ^ 4]) + contents[301:])
    elif i % 7 == 3: name.write_bytes(names[i - 3].read_bytes() if names[i - 3].exists() else names[-1].read_bytes())
    elif i % 7 == 4: name.write_bytes(b"")
    elif i % 7 == 5:
        name.unlink()
        name.mkdir()
        (name / "file").write_bytes(b"x")
PYTHON
}
damage "$SLUICE_KERNEL_CACHE"
succeeds "damaged" compile -o "$work/other.sla"
same "damaged: the same bytes"
if grep -q 'cannot store' "$work/err"; then fail "damaged: every entry is stored" "$(cat "$work/err")"; else pass "damaged: every entry is stored"; fi
touch -d '2001-01-01' "$SLUICE_KERNEL_CACHE"/*.kernel
succeeds "after the damage" compile -o "$work/other.sla"
old=$(find "$SLUICE_KERNEL_CACHE" -name '*.kernel' ! -newermt '2002-01-01' | wc -l)
if ((old == 0 && $(entries) == count)); then
  pass "damaged entries are replaced"
else
  fail "damaged entries are replaced" "$old unused of $(entries), $count before"
fi

# Other commands that compile use it, too.
rm -r "$SLUICE_KERNEL_CACHE"
printf 'one two one two one two one two one two' > "$work/text"
succeeds "weights" "$sluice" train "$work/cold.sla" --steps 0 --out "$work/run"
succeeds "logits" "$sluice" logits "$work/cold.sla" -w "$work/run" --data "$work/text" -o "$work/rows.npy" --kernel-cache "$work/other"
if (($(entries "$work/other") > 3)); then pass "logits stores kernels"; else fail "logits stores kernels" "$(ls "$work")"; fi

# Paths that cannot be written: the artifact is complete, and a user who named the path gets a note.
touch "$work/file"
succeeds "a file instead of a folder" compile --kernel-cache "$work/file" -o "$work/other.sla"
same "a file instead of a folder: the same bytes"
if grep -q "sluice: $work/file: cannot store compiled kernels: Not a directory; compiled without" "$work/err"; then
  pass "a file instead of a folder is reported"
else
  fail "a file instead of a folder is reported" "$(cat "$work/err")"
fi
unset SLUICE_KERNEL_CACHE
succeeds "no home" env -u HOME -u XDG_CACHE_HOME "$sluice" compile "$work/spec.json" --kernel-cache "$work/other" -o "$work/other.sla"
quiet() { # NAME COMMAND...: succeeds and prints only its progress
  succeeds "$@"
  if grep -v '^sluice: compile: ' "$work/err"; then fail "$1: quiet" "$(cat "$work/err")"; else pass "$1: quiet"; fi
}
quiet "a home that is a file" env -u XDG_CACHE_HOME HOME="$work/file" "$sluice" compile "$work/spec.json" -o "$work/other.sla"
same "a home that is a file: the same bytes"
exits 2 "an invalid limit" env SLUICE_KERNEL_CACHE_SIZE=much "$sluice" compile "$work/spec.json" -o "$work/other.sla"
exits 2 "an empty name" compile --kernel-cache '' -o "$work/other.sla"

# GPU kernels: an entry of bitcode and PTX for each, and of a cubin if there is a ptxas.
export SLUICE_KERNEL_CACHE=$work/gpu
# shellcheck disable=SC2317 # checks call it
for_gpu() { compile --target sm_80 --precision bf16 -o "$work/${output:-other}.sla"; }
# same_gpu NAME [FILE]: the last artifact equals FILE, or the artifact of an empty cache, byte for
# byte.
same_gpu() {
  if cmp -s "${2:-$work/gpu.sla}" "$work/other.sla"; then pass "$1"; else fail "$1" "the artifacts differ"; fi
}
mkdir "$work/assemblers" "$work/assembled"
assembler=$(command -v ptxas || true)
without=$(path_without_ptxas)
SLUICE_KERNEL_CACHE=off succeeds "GPU, off" for_gpu
mv "$work/other.sla" "$work/gpu.sla"
# names STAGES: the GPU kernels of such a spec, which are named by their IR.
names() {
  sed "s/{ \"op\": \"head\" }/$1&/" "$work/spec.json" > "$work/more.json"
  "$sluice" compile "$work/more.json" --target sm_80 --precision bf16 --emit kernels | grep -o 'func.func @[a-z]*_[0-9a-f]*' | sort -u
}
names '' > "$work/few"
names '{ "op": "layer", "heads": 2, "feed_forward": 24 }, ' > "$work/many"
few=$(wc -l < "$work/few") shared=$(comm -12 "$work/few" "$work/many" | wc -l)
if ((few > 8 && 2 * shared >= few)); then pass "GPU, specs share kernels"; else fail "GPU, specs share kernels" "$shared of $few"; fi
for each in 1 2; do output=process-$each for_gpu > "$work/process-$each" 2>&1 & done
succeeds "GPU, two processes: the first" wait %1
succeeds "GPU, two processes: the second" wait %2
for each in 1 2; do
  mv "$work/process-$each.sla" "$work/other.sla"
  same_gpu "GPU, two processes: the same bytes, $each"
done
count=$(entries)
succeeds "GPU, no assembler" env PATH="$without" "$sluice" compile "$work/spec.json" --target sm_80 --precision bf16 -o "$work/ptx.sla"
if (($(entries) == count && count > 8)); then pass "GPU, no assembler: no new entry"; else fail "GPU, no assembler: no new entry" "$count, $(entries)"; fi
damage "$SLUICE_KERNEL_CACHE"
succeeds "GPU, damaged" for_gpu
same_gpu "GPU, damaged: the same bytes"
if (($(entries) == count)); then pass "GPU, damaged entries are replaced"; else fail "GPU, damaged entries are replaced" "$count, $(entries)"; fi
# assembles NAME YES|NO: compiles with the assembler of $work/assemblers, which gives the output of the one in PATH: whether
# it was called for kernels.
assembles() {
  : > "$work/calls"
  succeeds "GPU, $1" env PATH="$work/assemblers:$PATH" "$sluice" compile "$work/spec.json" --target sm_80 --precision bf16 -o "$work/other.sla"
  same_gpu "GPU, $1: the same bytes"
  if [[ $2 == "$(grep -q kernel "$work/calls" && echo YES || echo NO)" ]]; then
    pass "GPU, $1: assembles: $2"
  else
    fail "GPU, $1: assembles: $2" "$(cat "$work/calls")"
  fi
}
# assembler_of VERSION [STATUS [TIME]]: assembles each PTX once and copies the result afterwards, to
# save time.
assembler_of() {
  cat > "$work/assemblers/new" << SCRIPT
#!/usr/bin/env bash
if [[ \$1 == --version ]]; then echo "V$1"; exit ${2:-0}; fi
echo kernel >> "$work/calls"
known=$work/assembled/\$(sha256sum < "\${@: -3:1}" | cut -c 1-64)
[[ -e \$known ]] || "$assembler" "\${@:1:\$# - 1}" "\$known" > "\$known.log" 2>&1 || exit
cat "\$known.log"
cat "\$known" > "\${@: -1}"
SCRIPT
  chmod +x "$work/assemblers/new"
  mv "$work/assemblers/new" "$work/assemblers/ptxas"
  touch -d "${3:-2001-01-01}" "$work/assemblers/ptxas"
}
if [[ -n $assembler ]]; then
  ptx=$(($(entries) / 2))
  if ((count == 2 * ptx)); then pass "GPU, a cubin for each kernel"; else fail "GPU, a cubin for each kernel" "$count"; fi
  assembler_of 13.0
  assembles "another assembler" YES
  touch -d '2001-01-01' "$SLUICE_KERNEL_CACHE"/*.kernel
  assembles "the same assembler again" NO
  old=$(find "$SLUICE_KERNEL_CACHE" -name '*.kernel' ! -newermt '2002-01-01' | wc -l)
  if ((old == ptx)); then pass "GPU, uses every entry except the first one's cubins"; else fail "GPU, uses every entry except the first one's cubins" "$old, $ptx"; fi
  if (($(entries) == 3 * ptx)); then pass "GPU, only its cubins are new"; else fail "GPU, only its cubins are new" "$ptx, $(entries)"; fi
  assembler_of 13.1
  assembles "another version" YES
  assembler_of 13.1 0 2002-02-02
  assembles "a file of another time" YES
  assembler_of 13.1 1
  count=$(entries)
  assembles "no version" YES
  if (($(entries) == count)); then pass "GPU, no version: no entry is stored"; else fail "GPU, no version: no entry is stored" "$count, $(entries)"; fi
  assembler_of 13.2
  SLUICE_KERNEL_CACHE_SIZE=100KiB assembles "a limit" YES
  bytes=$(cat "$SLUICE_KERNEL_CACHE"/*.kernel | wc -c)
  if ((bytes <= 102400)); then pass "GPU, the limit holds"; else fail "GPU, the limit holds" "$bytes bytes"; fi
else
  pass "GPU, no assembler in the PATH: cubins not checked"
fi

# The default is only this machine's CPU.
export SLUICE_KERNEL_CACHE=$work/other
targets() { "$sluice" inspect "$1" --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["targets"])'; }
best=$(targets "$work/cold.sla")
other=cpu-avx2
[[ $best == cpu-avx2 ]] && other=cpu-avx512
if [[ $best == cpu-avx2 || $best == cpu-avx512 ]]; then pass "one target"; else fail "one target" "$best"; fi
succeeds "compile uses the target of the variable" env SLUICE_CPU_TARGET=$other "$sluice" compile "$work/spec.json" -o "$work/foreign.sla"
if grep -aq "_${other/-/_}" "$work/foreign.sla" && ! grep -aq "_${best/-/_}" "$work/foreign.sla"; then
  pass "the target is $other"
else
  fail "the target is $other"
fi
if [[ $other == cpu-avx512 ]]; then
  exits 2 "another machine's artifact" "$sluice" train "$work/foreign.sla" --steps 0 --out "$work/never"
  if grep -qE "expected code for cpu-avx2, found code for cpu-avx512; compile the spec again on this machine, or with --target cpu for every machine" "$work/err"; then
    pass "the remedy"
  else
    fail "the remedy" "$(cat "$work/err")"
  fi
fi
if [[ $(targets "$work/foreign.sla") == "$other" ]]; then pass "inspect on any machine"; else fail "inspect on any machine"; fi
exits 2 "a variable with an unknown target" env SLUICE_CPU_TARGET=avx2 "$sluice" compile "$work/spec.json" -o "$work/never.sla"
if grep -q '^sluice: error: SLUICE_CPU_TARGET: expected cpu-amx, cpu-avx512-bf16, cpu-avx512-vnni, cpu-avx512 or cpu-avx2, found "avx2"; ' "$work/err"; then
  pass "it is named"
else
  fail "it is named" "$(cat "$work/err")"
fi

# A change of a source that lowers kernels changes the identity in every key: a new file, an edit, a removal.
mkdir -p "$work/tree/lib/Target" "$work/tree/include/sluice/Target"
identity() { cmake -DROOT="$work/tree" -DOUTPUT="$work/identity" -P "$root/cmake/LoweringSources.cmake" && cat "$work/identity"; }
echo 'int a;' > "$work/tree/lib/Target/a.cpp"
first=$(identity)
echo 'int b;' > "$work/tree/include/sluice/Target/b.h"
second=$(identity)
echo 'int c;' > "$work/tree/include/sluice/Target/b.h"
third=$(identity)
rm "$work/tree/include/sluice/Target/b.h"
if [[ $first != "$second" && $second != "$third" && $first != "$third" && $first == $(identity) ]]; then
  pass "the identity follows the sources"
else
  fail "the identity follows the sources" "$first" "$second" "$third"
fi
finish
