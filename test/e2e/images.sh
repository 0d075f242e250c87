#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Images as sequences: read from PNG and from bytes, scored in bits per dimension, completed as PNG; rejected input.
# shellcheck disable=SC2317 # succeeds and exits call these functions
set -euo pipefail
. "$(dirname "$0")/support/checks.bash"

targets=cpu-avx2
reports() {
  if grep -qE -- "$2" "$work/err"; then pass "$1"; else fail "$1" "expected '$2' in:" "$(tail -n 5 "$work/err")"; fi
}
# Images of 4 x 4 pixels with three channels and equal rows: the upper half determines the lower half.
cat > "$work/images.py" << 'PYTHON'
import random, struct, sys, zlib
def write(path, pixels, width, height, color, depth=8, extra=()):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    each = width * {0: 1, 2: 3, 6: 4}[color] * depth // 8
    lines = b"".join(b"\0" + pixels[i * each:(i + 1) * each] for i in range(height))
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunk(*c) for c in extra) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))
def read(path):
    data, at, body = open(path, "rb").read(), 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR": width, height, depth, color = struct.unpack(">IIBB", data[at + 8:at + 18])
        if kind == b"IDAT": body += data[at + 8:at + 8 + size]
        at += 12 + size
    raw, each = zlib.decompress(body), width * (3 if color == 2 else 1)
    above, rows, step = bytes(each), b"", each // width
    for y in range(height):  # the filters of PNG, section 9
        kind, line = raw[y * (each + 1)], bytearray(raw[y * (each + 1) + 1:(y + 1) * (each + 1)])
        for x in range(each):
            a, b, c = (line[x - step] if x >= step else 0), above[x], (above[x - step] if x >= step else 0)
            p = a + b - c
            best = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[x] = (line[x] + [0, a, b, (a + b) // 2, best][kind]) & 255
        above, rows = bytes(line), rows + bytes(line)
    return width, height, color, rows
def image():
    return bytes(random.choice((10, 200)) for _ in range(12)) * 4
if __name__ == "__main__":
    random.seed(4)
    folder = sys.argv[1]
    open(folder + "/train.bin", "wb").write(b"".join(image() for _ in range(4000)))
    test = [image() for _ in range(8)]
    open(folder + "/test.bin", "wb").write(b"".join(test))
    for i, pixels in enumerate(test):
        write(f"{folder}/test-{i}.png", pixels, 4, 4, 2)
        write(f"{folder}/gamma-{i}.png", pixels, 4, 4, 2, extra=[(b"gAMA", struct.pack(">I", 100000)), (b"sBIT", b"\5\5\5")])
    write(folder + "/clear.png", bytes(48), 4, 4, 2, extra=[(b"tRNS", bytes(6))])
    write(folder + "/gray.png", bytes(16), 4, 4, 0)
    write(folder + "/alpha.png", bytes(64), 4, 4, 6)
    write(folder + "/deep.png", bytes(96), 4, 4, 2, 16)
    write(folder + "/wide.png", bytes(48), 8, 2, 2)
    open(folder + "/short.png", "wb").write(open(folder + "/test-0.png", "rb").read()[:60])
    open(folder + "/odd.bin", "wb").write(bytes(50))
PYTHON
python3 "$work/images.py" "$work"

succeeds "compile" "$sluice" compile "$root/models/tiny/vanilla.json" --set context=48 --set training.learning_rate=3e-3 \
  -t "$targets" -o "$work/image.sla"
train() { "$sluice" train "$work/image.sla" --cpu-target "$targets" "$@"; }
score() { "$sluice" eval "$work/image.sla" --cpu-target "$targets" --weights "$work/run" --images 4x4x3 --json "$@"; }
paint() { "$sluice" generate "$work/image.sla" --cpu-target "$targets" --weights "$work/run" "$@"; }
succeeds "train" train --images 4x4x3 --data "$work/train.bin" --eval-data "$work/test.bin" --out "$work/run" --steps 400
succeeds "eval of bytes" score --data "$work/test.bin"
cp "$work/out" "$work/bytes.json"
succeeds "eval of PNG files" score --data "$work"/test-?.png
cp "$work/out" "$work/png.json"
succeeds "eval of PNG files with a gamma" score --data "$work"/gamma-?.png
holds "pixels equal the numbers of the file" 'f[0]["nats"] == f[1]["nats"]' "$work/bytes.json" "$work/out"
holds "both files give the same scores" 'f[0]["nats"] == f[1]["nats"] and f[0]["images"] == 8' "$work/bytes.json" "$work/png.json"
holds "every byte is scored, including the first" 'f[0]["tokens"] == 8 * 48' "$work/bytes.json"
holds "pixels give no bits per character" 'f[0]["characters"] is f[0]["bits_per_character"] is None and f[0]["no_characters"] == "images are not text"' "$work/bytes.json"
holds "a first row costs 12 bits, the others nothing" '12 / 48 <= f[0]["bits_per_dim"] < 15 / 48' "$work/bytes.json"
holds "held-out images while training" 'abs(f[1][-1]["eval_bits_per_byte"] - f[0]["bits_per_dim"]) < 1e-6' \
  "$work/bytes.json" "$work/run/metrics.jsonl"

succeeds "complete" paint --images 4x4x3 --image "$work/test.bin" --png "$work/whole" --temperature 0
succeeds "complete without a cache" paint --images 4x4x3 --image "$work/test.bin" --png "$work/again" --temperature 0 --no-cache
succeeds "invent" paint --images 4x4x3 --png "$work/new" --num 2 --seed 5 --top-k 2
succeeds "images have the expected pixels" python3 - "$work" << 'PYTHON'
import sys
folder = sys.argv[1]
sys.path.insert(0, folder)
from images import read
whole = [read(f"{folder}/whole/{i + 1}.png") for i in range(8)]
again = [read(f"{folder}/again/{i + 1}.png") for i in range(8)]
assert all(image[:3] == (4, 4, 2) for image in whole)
assert b"".join(image[3] for image in whole) == open(folder + "/test.bin", "rb").read()
assert whole == again
new = [read(f"{folder}/new/{i + 1}.png")[3] for i in range(2)]
assert new[0] != new[1] and all(set(pixels) <= {10, 200} for pixels in new)
PYTHON

exits 2 "gray" score --data "$work/gray.png"
reports "both sizes" 'gray.png: expected a PNG of 4x4x3, as --images specifies, found one of 4x4x1'
exits 2 "transparency" score --data "$work/alpha.png"
reports "what it has" 'alpha.png: expected a PNG of 8 bits per channel without transparency, found one with transparency'
exits 2 "a transparent color" score --data "$work/clear.png"
reports "the message names it too" 'clear.png: .*found one with transparency'
exits 2 "16 bits" score --data "$work/deep.png"
reports "how many" 'found one of 16 bits'
exits 2 "another shape with the same number of bytes" score --data "$work/wide.png"
exits 2 "a cut PNG" score --data "$work/short.png"
reports "the message reports the damage" 'short.png: expected a PNG image, found a damaged one'
exits 2 "incomplete images" score --data "$work/odd.bin"
reports "how long" 'images of 4x4x3, 48 bytes each, found 50 bytes'
exits 2 "another context" train --images 4x4x1 --data "$work/test.bin" --out "$work/none"
reports "the remedy" 'compile with --set context=16'
exits 2 "no size" train --images 4x4 --data "$work/test.bin" --out "$work/none"
exits 2 "windows of images" score --data "$work/test.bin" --stride 8
exits 2 "a prompt for an image" paint --images 4x4x3 --png "$work/none" --prompt a
exits 2 "a folder with files" paint --images 4x4x3 --png "$work/whole"
exits 2 "rows of a missing image" paint --images 4x4x3 --png "$work/none" --keep 2
exits 2 "too many rows" paint --images 4x4x3 --image "$work/test.bin" --png "$work/none" --keep 5
exits 2 "an image without its size" paint --image "$work/test.bin"
succeeds "nothing was written" test ! -e "$work/none"

# A model that omits its first 15 rows.
succeeds "compile a top-down model" "$sluice" compile "$root/models/tiny/top-down.json" --set context=48 -t "$targets" -o "$work/down.sla"
succeeds "its weights" "$sluice" train "$work/down.sla" --cpu-target "$targets" --out "$work/down" --steps 0
down=("$work/down.sla" --cpu-target "$targets" --weights "$work/down" --images 4x4x3)
succeeds "eval without the first bytes" "$sluice" eval "${down[@]}" --data "$work/test.bin" --json
holds "the scored range is reported" 'f[0]["tokens"] == 8 * 33 and "the first 15 bytes are not scored" in f[0]["protocol"]' "$work/out"
exits 2 "new images of such a model" "$sluice" generate "${down[@]}" --png "$work/none"
reports "the message names the required input" 'expected at least 15 bytes of an image to continue, .* found 0; give --image'
succeeds "completed ones" "$sluice" generate "${down[@]}" --png "$work/low" --image "$work/test-0.png" --keep 2

finish
