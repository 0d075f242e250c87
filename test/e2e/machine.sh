#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Unusable paths are bad input (status 2); a machine without enough resources is a failed job (status 1). Neither is a defect
# of sluice (3), neither loses a verdict, and no file remains.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"
chmod 755 "$work"

# ends STATUS NAME PATTERN COMMAND...: all lines of the message on stderr, taken together, match the extended pattern.
ends() {
  local expected=$1 name=$2 pattern=$3 status=0
  shift 3
  timeout 60 "$@" > "$work/out" 2> "$work/err" < /dev/null || status=$?
  if [[ $status -ne $expected ]]; then
    fail "$name" "command: $*" "exit status $status, expected $expected" "$(tail -n 5 "$work/err")"
  elif [[ -n $pattern ]] && ! grep -qzE -- "$pattern" "$work/err"; then
    fail "$name" "the message does not match '$pattern':" "$(head -c 600 "$work/err")"
  elif LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]' "$work/err"; then
    fail "$name" "the message has control characters:" "$(head -c 600 "$work/err" | cat -v)"
  elif [[ $(wc -c < "$work/err") -gt 20000 ]]; then
    fail "$name" "the message has $(wc -c < "$work/err") bytes"
  else
    pass "$name"
  fi
}

said() {
  if grep -qE -- "$2" "$work/out"; then pass "$1"; else fail "$1" "not said: $2" "$(head -n 3 "$work/out")"; fi
}

spec=$root/models/tiny/vanilla.json
cat > "$work/leak.json" << SPEC
{
  "sluice": 1, "vocabulary": 256, "context": 32, "batch": 2, "width": 32,
  "stages": [
    { "op": "embedding" },
    { "op": "hourglass", "hierarchy": "1@1 1@4 1@1", "shift": 0, "heads": 4 },
    { "op": "head" }
  ]
}
SPEC
write_text "$work/data.txt" 4000 1
succeeds "compile" "$sluice" compile "$spec" -o "$work/good.sla" --target cpu-avx2

# Names.
ln -s loop "$work/loop"
long=$(printf 'n%.0s' {1..300})
mkfifo "$work/pipe"
: > "$work/file"
for place in loop/x "$long" pipe file/x; do
  name=${place:0:8}
  ends 2 "spec at $name" 'symbolic links|too long|not a regular file|Not a directory' "$sluice" check "$work/$place"
  ends 2 "artifact read at $name" 'symbolic links|too long|not a regular file|Not a directory' "$sluice" inspect "$work/$place"
  [[ $place == pipe ]] || ends 2 "data at $name" 'symbolic links|too long|not a regular file|Not a directory' \
    "$sluice" train "$work/good.sla" --data "$work/$place" --out "$work/run" --steps 1
  ends 2 "artifact written at $name" 'symbolic links|too long|not a regular file|no folder' \
    "$sluice" compile "$spec" -o "$work/$place"
  ends 2 "certificate at $name" 'symbolic links|too long|not a regular file|no folder' \
    "$sluice" check "$spec" --certificate "$work/$place"
  ends 2 "picture at $name" 'symbolic links|too long|not a regular file|no folder' \
    "$sluice" check "$spec" --picture "$work/$place"
done
cat "$work/data.txt" > "$work/pipe" & # data may come through a pipe
ends 0 "data at pipe" 'step 1/1' "$sluice" train "$work/good.sla" --data "$work/pipe" --out "$work/piped" --steps 1
wait $!
for place in loop/x "$long" file; do
  ends 2 "run at ${place:0:8}" 'symbolic links|too long|a file of this name|found a file|File exists' \
    "$sluice" train "$work/good.sla" --data "$work/data.txt" --out "$work/$place" --steps 1
done
for flags in "compile $spec -o" "check $spec --picture" "check $spec --certificate" "check" "inspect"; do
  # shellcheck disable=SC2086
  ends 2 "an empty name: ${flags%% *} ${flags##* }" 'empty' "$sluice" $flags ""
done
odd=$work/$'esc\x1b[2J\x07\xff\u202e'
cp "$work/leak.json" "$odd"
ends 2 "a name of control characters" 'esc\\u001b\[2J\\u0007\\xff\\u202e' "$sluice" inspect "$odd"
ends 2 "a flag of control characters" '\\u001b' "$sluice" check "$spec" $'--\x1b[2J'
ends 2 "a flag of 100 KB" 'expected one of its flags' "$sluice" check "$spec" "--$(head -c 100000 /dev/zero | tr '\0' x)"
printf '{ "sluice": 1, "k\\u001b%s": 2 }' "$(head -c 100000 /dev/zero | tr '\0' x)" > "$work/key.json"
ends 2 "a key of 100 KB" 'key.json:1:16: expected a key' "$sluice" check "$work/key.json"

# A folder without search permission. Root may search all.
mkdir -m 755 "$work/open"
mkdir -m 700 "$work/open/closed"
cp "$spec" "$work/open/closed/spec.json"
as_nobody=()
if [[ $(id -u) -eq 0 ]]; then as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups); fi
if [[ ${#as_nobody[@]} -gt 0 ]] && "${as_nobody[@]}" "$sluice" --version > "$work/out" 2>&1; then
  mkdir -m 777 "$work/nobody"
  chmod 644 "$work/good.sla" "$work/data.txt"
  closed=$work/open/closed
  ends 2 "spec in an unreadable folder" 'Permission denied' "${as_nobody[@]}" "$sluice" check "$closed/spec.json"
  ends 2 "artifact in an unreadable folder" 'Permission denied' "${as_nobody[@]}" "$sluice" inspect "$closed/a.sla"
  ends 2 "output in an unreadable folder" 'Permission denied' "${as_nobody[@]}" "$sluice" compile "$spec" -o "$closed/a.sla"
  ends 2 "run in an unreadable folder" 'Permission denied' \
    "${as_nobody[@]}" "$sluice" train "$work/good.sla" --data "$work/data.txt" --out "$closed/run" --steps 1
  ends 2 "weights in an unreadable folder" 'Permission denied' \
    "${as_nobody[@]}" "$sluice" eval "$work/good.sla" --data "$work/data.txt" --weights "$closed/w"
  ends 2 "report in an unreadable folder" 'Permission denied' "${as_nobody[@]}" "$sluice" report "$closed/run"
  # Not one more process or thread.
  # shellcheck disable=SC2016
  limited=("${as_nobody[@]}" bash -c 'ulimit -u 1; exec "$0" "$@"' "$sluice")
  ends 1 "compile without threads" 'Resource temporarily unavailable' "${limited[@]}" compile "$spec" -o "$work/nobody/a.sla"
  ends 1 "bench without threads" 'Resource temporarily unavailable|threads' \
    "${limited[@]}" bench "$work/good.sla" --steps 1 --threads 1
  ends 1 "a leak without threads" '^$|Resource' "${limited[@]}" check "$work/leak.json"
  said "the verdict stands without threads" 'leak|reads'
fi

# TMPDIR is not used.
for folder in "$work/nowhere" "$work/file" "$work/loop"; do
  ends 1 "a leak, TMPDIR $(basename "$folder")" '' env TMPDIR="$folder" "$sluice" check "$work/leak.json"
  said "its witness is replayed" 'replayed|compiled|changes'
  ends 0 "compile, TMPDIR $(basename "$folder")" '' env TMPDIR="$folder" "$sluice" compile "$spec" -o "$work/tmp.sla"
done

# Resources: files, memory, handles.
# shellcheck disable=SC2016
ends 1 "a full standard output" 'standard output' bash -c '"$0" compile "$1" --emit plan > /dev/full' "$sluice" "$spec"
before=$(ls -A "$work")
for kib in 1 100; do
  # shellcheck disable=SC2016
  ends 1 "files of $kib KiB" 'File too large' bash -c 'ulimit -f "$0"; exec "$@"' "$kib" "$sluice" compile "$spec" -o "$work/small.sla"
done
# Eight suffice for every file that a compile opens.
for handles in 4 6; do
  status=0
  # shellcheck disable=SC2016
  bash -c 'ulimit -n "$0"; exec "$@"' "$handles" "$sluice" compile "$spec" -o "$work/small.sla" 2> "$work/err" || status=$?
  if [[ $status -eq 1 ]] && grep -q 'Too many open files' "$work/err"; then
    pass "$handles handles"
  else
    fail "$handles handles" "exit status $status" "$(head -n 3 "$work/err")"
  fi
done
# shellcheck disable=SC2016
ends 0 "8 handles" '' bash -c 'ulimit -n 8; exec "$@"' bash "$sluice" compile "$spec" -o "$work/small.sla"
rm -f "$work/small.sla"
if [[ $(ls -A "$work") == "$before" ]]; then
  pass "no file remains"
else
  fail "no file remains" "$(diff <(echo "$before") <(ls -A "$work"))"
fi
for mib in 150 250 400; do
  # shellcheck disable=SC2016
  bash -c 'ulimit -v "$0"; exec "$@"' $((mib * 1024)) "$sluice" check "$work/leak.json" > "$work/out" 2> "$work/err" && status=0 || status=$?
  # Below some size the loader itself has no memory for the libraries (127).
  if [[ $status -eq 1 || $status -eq 127 ]]; then
    pass "a leak in $mib MiB"
  else
    fail "a leak in $mib MiB" "exit status $status" "$(head -n 3 "$work/err")"
  fi
done

# The next compile removes files that a killed one left next to its artifact.
sleep 0 &
dead=$!
wait "$dead"
echo half > "$work/tmp.sla.tmp-$dead"
ends 0 "compile after a killed one" '' "$sluice" compile "$spec" -o "$work/tmp.sla" --target cpu-avx2
if [[ -e $work/tmp.sla.tmp-$dead ]]; then fail "the killed compile's file is removed"; else pass "the killed compile's file is removed"; fi
# The linker's output is called "-", which is not a file of the user's.
(cd "$work" && echo mine > ./- && "$sluice" compile "$spec" -o tmp.sla --target cpu-avx2)
if [[ $(cat "$work/-") == mine ]]; then pass "a file called - is not changed"; else fail "a file called - is not changed"; fi
finish
