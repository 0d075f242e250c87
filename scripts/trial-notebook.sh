#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Executes examples/first-model.ipynb with the Python package over this build, in an environment that it makes in
# build/notebook-venv with packages from PyPI. Exit status 1 if a cell fails. --save writes the outputs to the notebook.
# Takes minutes.
# Usage: scripts/trial-notebook.sh [--save]
set -euo pipefail
. "$(dirname "$0")/common.sh"

[[ $# -eq 0 || ($# -eq 1 && $1 == --save) ]] || die "expected --save or nothing, found '$*'"
[[ -x $build/bin/sluice ]] || die "expected $build/bin/sluice, found none; build it first: scripts/build.sh"
environment=$build/notebook-venv notebook=$root/examples/first-model.ipynb
if [[ ! -e $environment/made ]]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install -q nbconvert ipykernel matplotlib
  touch "$environment/made"
fi
SLUICE_BUILD=$build "$environment/bin/pip" install -q --force-reinstall --no-deps "$root/python"
[[ ${1:-} == --save ]] && output=$notebook || output=$build/first-model.ipynb
"$environment/bin/python" -m nbconvert --to notebook --execute --ExecutePreprocessor.record_timing=False "$notebook" --output "$output"
