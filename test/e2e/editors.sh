#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The two language servers from an editor's view: support/editors.py plays the editor.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

for server in sluice-spec-lsp sluice-lsp-server; do
  succeeds "$server --version" "$root/build/bin/$server" --version
  if grep -qx "$server [0-9.]*" "$work/out"; then pass "$server prints its version"; else fail "$server prints its version" "$(head -n 3 "$work/out")"; fi
  succeeds "$server --help" "$root/build/bin/$server" --help
  if grep -q editors.md "$work/out"; then pass "$server --help names the documentation"; else fail "$server --help names the documentation" "$(head -n 3 "$work/out")"; fi
  exits 1 "$server exits with the editor" "$root/build/bin/$server" < /dev/null
done
exits 2 "an unknown flag" "$root/build/bin/sluice-spec-lsp" --dealy 3

for level in model dispatches plan; do
  succeeds "IR of the level $level" "$sluice" compile "$root/models/tiny/hourglass.json" --emit "$level"
  cp "$work/out" "$work/$level.mlir"
done
python3 "$root/test/e2e/support/editors.py" "$root" "$work" || failures=$((failures + 1))

# Neovim runs the snippet of docs/editors.md unchanged except for the path. scripts/setup.sh installs it.
cat > "$work/leak.json" << 'SPEC'
{
  "sluice": 1, "vocabulary": 256, "context": 32, "batch": 2, "width": 16,
  "defaults": { "heads": 2 },
  "stages": [
    { "op": "embedding", "to": "fine" },
    { "op": "shorten", "factor": 4 },
    { "op": "layer" },
    { "op": "upsample", "factor": 4 },
    { "op": "add", "with": "fine" },
    { "op": "head" }
  ]
}
SPEC
printf 'func.func @f() {\n  "sluice.nothing"() : () -> ()\n  func.return\n}\n' > "$work/unknown.mlir"
# shellcheck disable=SC2016 # backticks of Markdown
sed -n '/^```lua/,/^```/p' "$root/docs/editors.md" | sed '/^```/d' | sed "s|/path/to/sluice|$root|" > "$work/init.lua"
succeeds "Neovim starts with the snippet" timeout 300 nvim --headless -n -i NONE -u "$work/init.lua" -c "luafile $root/test/e2e/support/neovim.lua" -c "qall!"
grep -E '^(ok|FAIL|  )' "$work/out" || true
if [[ $(grep -c '^ok Neovim' "$work/out") -ne 5 ]]; then
  fail "Neovim: five checks hold" "$(tail -n 5 "$work/err")"
fi
finish
