#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Injects faults into the GPU kernels of a model that uses all of them (test/mutation/subject.json: ragged sizes, several blocks
# an axis, more steps of K than twice a pipeline's stages) and runs the emulator and the float64 oracle on each: barriers,
# waits and commits removed or loosened, bounds, masks, clamps and stage numbers one off. Prints the undetected faults, the faults
# proved to be none, and the shares of caught faults. A complete run takes an hour or two; it reports its progress, and a stopped run
# resumes where --log and --resume are given.
# Usage: scripts/mutate.sh [flags of sluice-mutate, for instance --every 20 --kernels attention --log trials.jsonl --resume]
set -euo pipefail
. "$(dirname "$0")/common.sh"

mutate=$build/bin/sluice-mutate
[[ -x $mutate ]] || die "expected $mutate, found none; run scripts/build.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$build/bin/sluice" compile "$root/test/mutation/subject.json" -o "$folder/subject.sla" --target sm_80
"$mutate" "$folder/subject.sla" "$@"
