#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Formats the C++ sources with clang-format; with --check, changes nothing, also runs shellcheck, wording.py, headers.py
# and check_includes.py, and fails on a difference or on a line of a .td file with more than 100 columns.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$root"
"$root/scripts/setup.sh" --format

mapfile -t sources < <(git ls-files '*.cpp' '*.h' '*.c')
mapfile -t tables < <(git ls-files '*.td')
mapfile -t shells < <(git ls-files '*.sh' '*.bash' .ci/run)
if [[ ${1:-} == --check ]]; then
  status=0
  [[ ${#sources[@]} -eq 0 ]] || clang-format-22 --dry-run --Werror "${sources[@]}" || status=1
  shellcheck -x "${shells[@]}" || status=1
  scripts/wording.py --check || status=1
  scripts/check_includes.py || status=1
  scripts/headers.py --check || status=1
  # Rows of tables and the line of the license cannot be broken.
  awk 'length > 100 && !/^ *\|/ && !/^\/\/ Part of Sluice/ { print FILENAME ":" FNR ": more than 100 columns"; bad = 1 } END { exit bad }' \
    "${tables[@]}" || status=1
  exit "$status"
fi
[[ $# -eq 0 ]] || die "unknown argument '$1'; usage: scripts/format.sh [--check]"
[[ ${#sources[@]} -eq 0 ]] || clang-format-22 -i "${sources[@]}"
