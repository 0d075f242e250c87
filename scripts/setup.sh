#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the Debian packages that building and testing need and that are missing. Quick when there are none.
# Usage: scripts/setup.sh [--program] [--format]
#   --program   only what building the program sluice needs; --format   also what scripts/format.sh needs
set -euo pipefail
. "$(dirname "$0")/common.sh"

packages=(
  clang-22 lld-22 llvm-22-dev libmlir-22-dev mlir-22-tools cmake ninja-build python3
  nlohmann-json3-dev libcli11-dev libssl-dev libpng-dev zlib1g-dev libzstd-dev libjemalloc-dev libsentencepiece-dev
)
testing=(llvm-22-tools libclang-rt-22-dev z3 libgtest-dev libboost-context-dev neovim libopenmpi-dev openmpi-bin)
for argument; do
  case $argument in
    --program) testing=() ;;
    --format) packages+=(clang-format-22 shellcheck) ;;
    *) die "unknown argument '$argument'; usage: scripts/setup.sh [--program] [--format]" ;;
  esac
done
packages+=("${testing[@]}")

if ! command -v dpkg-query > /dev/null; then
  say "not a Debian machine: install the counterparts of these packages yourself: ${packages[*]}"
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null) != installed ]]; then
    missing+=("$package")
  fi
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

say "installing ${missing[*]}"
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo > /dev/null || die "these packages are missing, and neither root nor sudo is at hand: ${missing[*]}"
  as_root=(sudo)
fi
# apt's output helps on failure: standard output belongs to the calling script.
{
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
} >&2 || die "apt-get could not install: ${missing[*]}; Debian 12 has LLVM 22 in its security updates"
