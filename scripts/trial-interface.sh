#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compares the command line, the C interface and the Python package: trial-interface.sh [--loads N] [SPEC...], by default
# all models of models/tiny and 1000 loads. For each model: check, compile, three training steps, evaluation, logits, the
# rows of each stage, generation and beam search from each of the three, which must give the same bits; gradients from C and
# Python, as the command line has none. Then it loads the model N times from C and from Python, whose memory must not
# grow. C reads files, and Python arrays. Prints a line for each comparison that fails and counts; exit status 1 if one
# failed. Takes half an hour of two cores. Needs build/python-venv, which scripts/setup.sh makes.
set -euo pipefail
. "$(dirname "$0")/common.sh"

python=$build/python-venv/bin/python
[[ -x $build/bin/sluice && -e $build/lib/libsluice.so ]] || die "expected $build/bin/sluice, found none; build it first: scripts/build.sh"
[[ -x $python ]] || die "expected $build/python-venv, found none; run scripts/setup.sh, which needs PyPI"
SLUICE_BUILD=$build "$build/python-venv/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall "$root/python"
exec "$python" "$root/scripts/trial_interface.py" "$root" "$build" "$@"
