#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The Python package: installs it next to this build, and runs its checks.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

environment=$root/build/python-venv
if [[ ! -e $environment/made ]]; then
  fail "the environment" "expected $environment with nanobind, found none; run scripts/setup.sh, which needs PyPI"
  finish
fi
export SLUICE_CPU_TARGET=cpu-avx2
command -v c++ > /dev/null || export CC=clang-22 CXX=clang++-22 # which the build needs anyway
install() { "$environment/bin/pip" install -q --no-build-isolation --no-deps --force-reinstall "$root/python"; }
succeeds "pip install" install
mkdir "$work/empty"
missing() { SLUICE_BUILD=$work/empty "$environment/bin/pip" install --no-build-isolation --no-deps --target "$work/target" "$root/python"; }
exits 1 "pip install without a build" missing
if cat "$work/out" "$work/err" | tr -s ' \n' ' ' | grep -q 'run scripts/build.sh first'; then
  pass "says what it needs"
else
  fail "says what it needs" "$(tail -n 20 "$work/out")"
fi
mkdir "$work/package"
status=0
"$environment/bin/python" "$root/test/e2e/support/python_package.py" "$root" "$work/package" || status=$?
[[ $status -eq 0 ]] || failures=$((failures + 1))
finish
