#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Imports random state dicts of nanoGPT's model and of the transformers library's GPT-2 and Llama, with and without grouped
# queries, of Qwen2 and of Mistral, by the maps of models/imported, and compares logits. Prints the largest difference of each
# model, relative to its largest logit. PYTHON names an interpreter with torch, transformers, numpy and safetensors. Exit status 1
# if a difference exceeds 1e-5. Takes about two minutes and 3 GiB.
set -euo pipefail
. "$(dirname "$0")/common.sh"

python=${PYTHON:-python3}
[[ -x $build/bin/sluice ]] || die "expected $build/bin/sluice, found none; build it first: scripts/build.sh"
"$python" -c 'import numpy, safetensors, torch, transformers' 2> /dev/null ||
  die "expected an interpreter with torch, transformers, numpy and safetensors, found $python without them; set PYTHON"
"$python" "$root/scripts/trial_import.py" "$build/bin/sluice" "$root/models/imported"
