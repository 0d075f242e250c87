#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs the Debian packages that building and testing need and that are missing. Quick when there are none.
# For tests of the Python package also makes build/python-venv, with nanobind and scikit-build-core from PyPI.
# Usage: scripts/setup.sh [--program] [--format]
#   --program   only what building the program sluice needs; --format   also what scripts/format.sh needs
set -euo pipefail
. "$(dirname "$0")/common.sh"

packages=(
  clang-22 lld-22 llvm-22-dev libmlir-22-dev mlir-22-tools cmake ninja-build python3
  nlohmann-json3-dev libcli11-dev libssl-dev libpng-dev zlib1g-dev libzstd-dev libjemalloc-dev libsentencepiece-dev
)
testing=(llvm-22-tools libclang-rt-22-dev z3 libgtest-dev libboost-context-dev neovim libopenmpi-dev openmpi-bin
  python3-dev python3-venv python3-numpy)
for argument; do
  case $argument in
    --program) testing=() ;;
    --format) packages+=(clang-format-22 shellcheck) ;;
    *) die "unknown argument '$argument'; usage: scripts/setup.sh [--program] [--format]" ;;
  esac
done
packages+=("${testing[@]}")

# Makes an environment with the packages from PyPI that pip needs to build the Python package; Debian 12 lacks them.
make_python_environment() {
  local environment=$root/build/python-venv
  [[ ${#testing[@]} -gt 0 && ! -e $environment/made ]] || return 0
  say "making $environment for tests of the Python package"
  rm -rf "$environment"
  mkdir -p "$root/build"
  /usr/bin/env python3 -m venv --system-site-packages "$environment" >&2
  if "$environment/bin/pip" install -q 'nanobind>=2.4' 'scikit-build-core>=0.10' ninja numpy >&2; then
    touch "$environment/made"
  else
    say "PyPI cannot be reached: the test of the Python package will fail until scripts/setup.sh is run again"
  fi
}

if ! command -v dpkg-query > /dev/null; then
  say "not a Debian machine: install the counterparts of these packages yourself: ${packages[*]}"
  make_python_environment
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null) != installed ]]; then
    missing+=("$package")
  fi
done
if [[ ${#missing[@]} -eq 0 ]]; then
  make_python_environment
  exit 0
fi

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
make_python_environment
