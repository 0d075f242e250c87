# shellcheck shell=bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Functions that the scripts of this folder share; sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
# Debian's package llvm-22-tools keeps lit, FileCheck and not here.
llvm_bin=/usr/lib/llvm-22/bin
export root build llvm_bin

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 2; }
