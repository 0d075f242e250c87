# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""token_ids.py write COUNT VOCABULARY SEED FILE...: the same random ids, which mostly follow one another by a rule, into each
file: uint16 or int32 in .u2.npy and .i4.npy, uint16 without a header in others.
token_ids.py first SOURCE TARGET: the first id of an array of int32, as an array.
token_ids.py loss SPEC WEIGHTS METRICS STEP FILE: is the loss of a step that of a model of an embedding and a head alone, with
these weights, on the rows that docs/running.md defines? The standard library alone."""
import array, json, math, random, struct, sys

MASK = 2**64 - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def permute(index, count, key):
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    low = (1 << half) - 1
    while True:
        left, right = index >> half, index & low
        for turn in range(6):
            left, right = right, left ^ (mix(key ^ mix((right + (turn << 56)) & MASK)) & low)
        index = left << half | right
        if index < count:
            return index


def write(count, vocabulary, seed, paths):
    draw = random.Random(seed)
    ids = [draw.randrange(vocabulary)]
    while len(ids) < count:
        ids.append((3 * ids[-1] + 1) % vocabulary if draw.random() < 0.9 else draw.randrange(vocabulary))
    for path in paths:
        descr, code = ("<i4", "i") if path.endswith(".i4.npy") else ("<u2", "H")
        header = "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }" % (descr, count)
        header += " " * (-(len(header) + 11) % 64) + "\n"
        with open(path, "wb") as file:
            if path.endswith(".npy"):
                file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            file.write(array.array(code, ids).tobytes())


def copy_first(source, target):
    data = open(source, "rb").read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }".ljust(start - 11) + "\n"
    with open(target, "wb") as file:
        file.write(data[:10] + header.encode() + data[start : start + 4])


def read_weights(path):
    data = open(path, "rb").read()
    (size,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            first, last = (8 + size + offset for offset in entry["data_offsets"])
            rows, width = entry["shape"]
            numbers = array.array("f", data[first:last])
            tensors[name] = [numbers[i * width : (i + 1) * width] for i in range(rows)]
    return tensors


def check_loss(spec, weights, metrics, step, path):
    spec = json.load(open(spec))
    data, step = array.array("H", open(path, "rb").read()), int(step)
    context, batch = spec["context"], spec["batch"]
    rows = (len(data) - 1) // context - 1
    key = mix(0 ^ mix(0))
    phase = mix(key + 1 & MASK) % (len(data) - rows * context)
    tensors = read_weights(weights)
    embedding, head = tensors["stages.0.token.weight"], tensors["stages.1.weight"]
    nats = []
    for index in range((step - 1) * batch, step * batch):
        start = phase + permute(index, rows, key) * context
        for t in range(start, start + context):
            x = embedding[data[t]]
            logits = [sum(a * b for a, b in zip(x, row)) for row in head]
            top = max(logits)
            nats.append(math.log(sum(math.exp(z - top) for z in logits)) + top - logits[data[t + 1]])
    expected = math.fsum(nats) / len(nats)
    lines = [json.loads(line) for line in open(metrics)]
    found = next(line["loss"] for line in lines if line["step"] == step)
    # A logit is a sum of 8 products, off by 8 U times the sum of their magnitudes, below 8; logarithm, exponentials and the
    # mean of 64 losses below 8 each add a few U.
    bound = 2.0**-24 * (2 * 8 * 8 + 16 + 8 * 8)
    assert max(abs(z) for row in head + embedding for z in row) <= 1
    assert abs(expected - found) <= bound, (expected, found, bound)
    print("the loss of step %d, %.7f, takes %.2f of its bound" % (step, found, abs(expected - found) / bound))


if sys.argv[1] == "write":
    write(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
elif sys.argv[1] == "first":
    copy_first(*sys.argv[2:])
else:
    check_loss(*sys.argv[2:])
