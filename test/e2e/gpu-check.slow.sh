#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The bundle for a machine with a GPU: without LLVM, its recordings correct on the emulator for both targets. It has two of the models
# of benchmarks/gpu/bundle.json, PTX alone and none to time; scripts/gpu-check.sh --pack checks the size of the complete one.
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

PATH=$(path_without_ptxas)
bundle=$work/bundle
python3 - "$root/benchmarks/gpu/bundle.json" "$work/list.json" << 'PYTHON'
import json, sys
bundle = json.load(open(sys.argv[1]))
bundle["checks"] = [check for check in bundle["checks"] if check["artifact"] in ("ragged.sla", "hred.sla")]
bundle["timed"] = []
json.dump(bundle, open(sys.argv[2], "w"))
PYTHON
succeeds "a bundle is built" "$root/scripts/gpu-check.sh" --pack "$bundle" "$work/list.json"
echo '{' > "$work/cut.json"
exits 2 "a cut list is refused" "$root/scripts/gpu-check.sh" --pack "$work/none" "$work/cut.json"
exits 1 "and no folder is made" test -e "$work/none"
exits 2 "an existing folder is not changed" "$root/scripts/gpu-check.sh" --pack "$bundle"
tar -xJf "$bundle.tar.xz" -C "$work" --transform 's/^bundle/unpacked/'
succeeds "the archive contains the bundle" diff -r "$bundle" "$work/unpacked"
ldd "$bundle/sluice-gpu-check" > "$work/needed"
exits 1 "the program needs only the C library" grep -vE 'linux-vdso|ld-linux|lib(c|m|dl|pthread)\.so' "$work/needed"
for check in ragged:sm_90a hred:sm_80; do
  name=${check%:*}
  target=${check#*:}
  succeeds "$name: the emulator's numbers for $target are within the recorded bounds" \
    "$root/build/bin/sluice-gpu-check" check "$bundle/$name.sla" "$bundle/$name.rec" --device emulator --gpu-target "$target"
  cp "$work/out" "$work/checked"
  exits 1 "$name: every kernel's bits for $target are the recorded ones" grep -v ' 0 other bits' "$work/checked"
done
exits 2 "without a driver there is one message" env SLUICE_CUDA_DRIVER=/nowhere/libcuda.so.1 "$bundle/gpu-check.sh" "$work/results"
cp "$work/err" "$work/said"
succeeds "it names the driver" grep -q "error: --device cuda: expected NVIDIA's driver, found none" "$work/said"
rm "$bundle/bundle.json"
exits 2 "without the bundle's list there is one message" "$bundle/gpu-check.sh" "$work/results"
cp "$work/err" "$work/said"
succeeds "it names the list" grep -q 'bundle.json: expected a bundle, found none' "$work/said"
finish
