# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compare_losses.py TEXT LOGITS LOSSES EVALUATION: compares logits, losses per token and their mean. TEXT is a file of bytes, or of
uint16 if its name ends in .u2. The standard library alone, so that it reads .npy files by their definition."""
import array, ast, json, math, struct, sys

U = 2.0 ** -24  # half a unit in the last place of an f32 near 1


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    assert (10 + length) % 64 == 0 and data[9 + length : 10 + length] == b"\n"
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert header["descr"] == "<f4" and header["fortran_order"] is False, header
    numbers = array.array("f", data[10 + length :])
    assert len(numbers) == math.prod(header["shape"]), header
    return header["shape"], numbers


text = open(sys.argv[1], "rb").read()
if sys.argv[1].endswith(".u2"):
    text = array.array("H", text)
(rows, vocabulary), logits = read_npy(sys.argv[2])
(count,), losses = read_npy(sys.argv[3])
evaluation = json.load(open(sys.argv[4]))
assert rows == len(text) and count == rows - 1 == evaluation["tokens"], (rows, count)
worst = 0
for i in range(count):
    row = logits[i * vocabulary : (i + 1) * vocabulary]
    top = max(row)
    expected = math.log(sum(math.exp(x - top) for x in row)) + top - row[text[i + 1]]
    # Two programs that sum a row's products in different orders. Each logit is a sum of 32 products (the width), off by at
    # most 32 U times the sum of their magnitudes: below 8, as the row is normed (magnitudes sum to at most 32) and weights
    # of the head stay below 1/4 here. A loss is a difference of two such numbers. Its exponentials, logarithm and roundings
    # add 8 U each way, relative to a sum near 1, and an U of the loss itself.
    bound = 2 * 32 * U * 8 + 16 * U + 4 * U * abs(losses[i])
    worst = max(worst, abs(expected - losses[i]) / bound)
    assert abs(expected - losses[i]) <= bound, (i, expected, losses[i], bound)
assert math.isclose(math.fsum(losses), evaluation["nats"], rel_tol=1e-12), (math.fsum(losses), evaluation["nats"])
print("losses agree; the worst took %.2f of its bound" % worst)
