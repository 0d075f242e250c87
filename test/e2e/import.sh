#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# State dicts of other programs become weights, whose logits equal recorded ones; export and import back is the identity.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

golden=$root/test/golden/imported
models=$root/models/imported
python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True; import array, states
array.array("H", states.TOKENS).tofile(open(sys.argv[2], "wb"))' "$golden" "$work/tokens"
sizes=(--set vocabulary=61 --set context=24 --set batch=1 --set width=16 --set stages.1.count=2 --set defaults.heads=4)

# compare NAME SPEC MAP: the logits of an imported state dict and of the library.
compare() {
  local name=$1 spec=$2 map=$3 values=("${sizes[@]}") flags=()
  if [[ $name != gpt2 ]]; then
    values+=(--set defaults.feed_forward=40 --set defaults.epsilon=1e-6)
    flags=(--size head_size=4)
  fi
  [[ $name != qwen2 ]] || values+=(--set defaults.attention_in_bias=true)
  [[ $name != qwen2 && $name != llama-grouped ]] || values+=(--set defaults.key_value_heads=2)
  python3 "$golden/states.py" "$name" "$work/$name.state"
  succeeds "$name: import" "$sluice" import "$work/$name.state" --map "$models/$map.map" --model "$models/$spec.json" \
    "${values[@]}" "${flags[@]}" -o "$work/$name.safetensors"
  succeeds "$name: compile" "$sluice" compile "$models/$spec.json" "${values[@]}" -o "$work/$name.sla" --target cpu-avx2 --generation-rows 1
  succeeds "$name: import for the artifact" "$sluice" import "$work/$name.state" --map "$models/$map.map" --model "$work/$name.sla" \
    "${flags[@]}" -o "$work/again.safetensors"
  succeeds "$name: with the same bytes" cmp "$work/$name.safetensors" "$work/again.safetensors"
  succeeds "$name: logits" "$sluice" logits "$work/$name.sla" --weights "$work/$name.safetensors" --data "uint16:$work/tokens" \
    -o "$work/$name.npy"
  succeeds "$name: logits within 1e-5 of the library's" python3 - "$golden/$name.logits" "$work/$name.npy" << 'PYTHON'
import array, sys
wanted = array.array("f", open(sys.argv[1], "rb").read())
data = open(sys.argv[2], "rb").read()
found = array.array("f", data[10 + int.from_bytes(data[8:10], "little"):])
assert len(wanted) == 24 * 61
worst, most = max(abs(a - b) for a, b in zip(found, wanted, strict=True)), max(map(abs, wanted))
assert worst <= 1e-5 * most, (worst, most)
PYTHON
}
compare gpt2 gpt2 gpt2
compare llama llama llama
compare llama-grouped llama-grouped llama
compare qwen2 llama llama

# The numbers of the tensors count where they come from, so a rule that is left out has an effect.
sed 's/"rotate_half": "head_size"/"rotate_half": 2/' "$models/llama.map" > "$work/other.map"
succeeds "another head size" "$sluice" import "$work/llama.state" --map "$work/other.map" --size head_size=4 -o "$work/other.safetensors"
exits 2 "a head size is required" "$sluice" import "$work/llama.state" --map "$models/llama.map" -o "$work/none"
exits 1 "gives other weights" cmp -s "$work/llama.safetensors" "$work/other.safetensors"

succeeds "export" "$sluice" export "$work/gpt2.sla" --weights "$work/gpt2.safetensors" -o "$work/exported"
same=("$sluice" import "$work/exported/weights.safetensors" --map "$models/same.map")
succeeds "import back" "${same[@]}" --model "$work/gpt2.sla" -o "$work/back.safetensors"
succeeds "is the identity" cmp "$work/gpt2.safetensors" "$work/back.safetensors"
succeeds "import back for the spec" "${same[@]}" --model "$models/gpt2.json" "${sizes[@]}" -o "$work/back.safetensors"
succeeds "is the identity too" cmp "$work/gpt2.safetensors" "$work/back.safetensors"

# rejects NAME PATTERN ARGUMENTS...: exit status 2, the message, and no file.
rejects() {
  local name=$1 pattern=$2 status=0
  shift 2
  "$sluice" import "$@" --map "$map" -o "$work/none" > "$work/out" 2> "$work/err" || status=$?
  if [[ $status -eq 2 && ! -e $work/none ]] && grep -qE -- "$pattern" "$work/err"; then
    pass "$name"
  else
    fail "$name" "exit status $status, expected 2 and '$pattern'" "$(tail -n 5 "$work/err")"
  fi
}
map=$models/gpt2.map state=$work/gpt2.state spec=(--model "$models/gpt2.json")
rejects "the spec's own sizes" 'gpt2.state: tensor "transformer.wte.weight": expected shape \[50257,768\] for "stages.0.token.weight" of .*gpt2.json, found \[61,16\] by .*gpt2.map:6:5; give the spec' "$state" "${spec[@]}"
rejects "another context" 'expected shape \[32,16\] .* found \[24,16\] .*; give the spec the state.s context: --set context=24$' "$state" "${spec[@]}" "${sizes[@]}" --set context=32
rejects "fewer layers" 'gpt2.map:8:5: expected "to" to give names of weights of .*gpt2.json, found "stages.1.inside.1.attention.norm.bias"' "$state" "${spec[@]}" "${sizes[@]}" --set stages.1.count=1
rejects "more layers" 'gpt2.map: expected a rule that gives "stages.1.inside.2.attention.norm.weight" \[16\] .* \(and 15 others like it\); give' "$state" "${spec[@]}" "${sizes[@]}" --set stages.1.count=3
rejects "a wrong setting" 'gpt2.json:.*--set defaults.heads=5' "$state" "${spec[@]}" "${sizes[@]}" --set defaults.heads=5
rejects "a setting of an artifact" 'expected --model to name a spec, found the artifact' "$state" --model "$work/gpt2.sla" --set width=16
rejects "a setting without a model" '--set: expected --model with it' "$state" --set width=16
rejects "another model" 'llama.state: tensor "lm_head.weight": .*|expected a tensor of the state' "$work/llama.state"
rejects "one state twice" 'expected one tensor "h.0.attn.c_attn.bias", found' "$state" "$state"
rejects "a size without a number" '--size: expected a name and a number of at least 1' "$state" --size head
rejects "an artifact as a state" 'expected a state dict, in a safetensors file, found a Sluice artifact' "$work/gpt2.sla"
rejects "a spec as a state" 'expected a state dict, in a safetensors file, found ' "$models/gpt2.json"
head -c 3000 "$state" > "$work/cut.state"
rejects "a truncated state" 'cut.state: .*may be cut short' "$work/cut.state"
python3 -c 'import pickle, sys; pickle.dump({"a": [1.0]}, open(sys.argv[1], "wb"))' "$work/state.bin"
rejects "a pickle" 'found a Python pickle; convert it, as in python3 -c .import torch; from safetensors.torch import save_file' "$work/state.bin"
map=$models/llama.map
head='q_proj.weight": expected heads of 4 for "rotate_half" of .*llama.map:9:5, the head size of "stages.1.inside.0.attention.query.weight" of '
rejects "another head size than the spec's" "$head.*llama.json, found 2; give" "$work/llama.state" --size head_size=2 \
  --model "$models/llama.json" "${sizes[@]}" --set defaults.feed_forward=40
rejects "another head size than the artifact's" "$head.*llama.sla, found 2; give" "$work/llama.state" --size head_size=2 --model "$work/llama.sla"
rejects "a spec without rotary" 'expected queries or keys of a layer with "rotary" for ' "$work/llama.state" --size head_size=4 \
  --model "$models/llama.json" "${sizes[@]}" --set defaults.feed_forward=40 --set defaults.rotary=false
exits 2 "replaces no file that it reads" "$sluice" import "$state" --map "$models/gpt2.map" -o "$state" --force
finish
