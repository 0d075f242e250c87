#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Real text for training: FOLDER/training.txt, 20,000,000 bytes, and FOLDER/held-out.txt, the 500,000 bytes that follow them.
# The text is the Collaborative International Dictionary of English, about 40 MB. Does nothing where both files are there.
# Usage: scripts/text.sh FOLDER
set -euo pipefail
. "$(dirname "$0")/common.sh"

[[ $# -eq 1 ]] || die "usage: scripts/text.sh FOLDER"
folder=$1
training_bytes=20000000
held_out_bytes=500000
if [[ -f $folder/training.txt && $(stat -c %s "$folder/training.txt") -eq $training_bytes && -f $folder/held-out.txt ]]; then
  exit 0
fi
mkdir -p "$folder"

# Unpacks its Debian package without installing it: installation starts a dictionary server.
dictionary=usr/share/dictd/gcide.dict.dz
source=/$dictionary
if [[ ! -f $source ]]; then
  say "fetching the text: Debian's package dict-gcide"
  rm -rf "$folder/dict-gcide"
  mkdir "$folder/dict-gcide"
  (cd "$folder/dict-gcide" && apt-get download dict-gcide && dpkg-deb -x dict-gcide_*.deb .) >&2 ||
    die "apt-get could not download dict-gcide; run apt-get update as root and try again"
  source=$folder/dict-gcide/$dictionary
fi
gzip -dc < "$source" > "$folder/text"
tail -c "+$((training_bytes + 1))" "$folder/text" | head -c "$held_out_bytes" > "$folder/held-out.txt" || true
head -c "$training_bytes" "$folder/text" > "$folder/training.txt"
rm -rf "$folder/text" "$folder/dict-gcide"
[[ $(stat -c %s "$folder/held-out.txt") -eq $held_out_bytes ]] || die "$source is shorter than expected"
