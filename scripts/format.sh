#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Formats the C++ sources with clang-format; with --check, changes nothing, also runs shellcheck and wording.py, and fails on a difference.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$root"
"$root/scripts/setup.sh" --format

mapfile -t sources < <(git ls-files '*.cpp' '*.h' '*.c')
mapfile -t shells < <(git ls-files '*.sh' '*.bash' .ci/run)
if [[ ${1:-} == --check ]]; then
  status=0
  [[ ${#sources[@]} -eq 0 ]] || clang-format-22 --dry-run --Werror "${sources[@]}" || status=1
  shellcheck -x "${shells[@]}" || status=1
  scripts/wording.py --check || status=1
  exit "$status"
fi
[[ $# -eq 0 ]] || die "unknown argument '$1'; usage: scripts/format.sh [--check]"
[[ ${#sources[@]} -eq 0 ]] || clang-format-22 -i "${sources[@]}"
