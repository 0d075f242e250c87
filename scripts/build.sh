#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Configures and builds into build/; quick when nothing changed. Arguments are ninja's (targets, -j).
set -euo pipefail
. "$(dirname "$0")/common.sh"

# A build folder that was configured from another checkout, or only half configured, cannot be used again.
cache=$build/CMakeCache.txt
if [[ ! -f $build/build.ninja ]] || ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
  say "configuring build/"
  rm -rf "$cache" "$build/CMakeFiles"
  cmake -S "$root" -B "$build" -G Ninja \
    -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 \
    -DMLIR_DIR=/usr/lib/llvm-22/lib/cmake/mlir \
    -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld >&2
fi
say "building"
ninja -C "$build" -j "${SLUICE_JOBS:-$(nproc)}" "$@" >&2
