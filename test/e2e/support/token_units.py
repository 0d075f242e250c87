# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""token_units.py MODEL TEXT IDS LOSSES EVALUATION [--sentencepiece]: compares the bits per byte and per character and the perplexity of
words in EVALUATION (eval --json) with a computation from the losses of each token (eval --per-token), the token ids of the text
(tokenizer --encode) and the pieces of the SentencePiece model (tokenizer --export). The standard library alone; with --sentencepiece,
the ids of each line are also compared with those of the Python package sentencepiece."""
import array, ast, codecs, json, math, struct, sys


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + length].decode())
    assert header["fortran_order"] is False and len(header["shape"]) == 1, header
    return array.array({"<f4": "f", "<u2": "H", "<i4": "i"}[header["descr"]], data[10 + length :])


def read_fields(data):
    """The fields of a protocol buffer: (number, value)."""
    at = 0

    def read_varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = read_varint()
        if key & 7 == 0:
            yield key >> 3, read_varint()
        elif key & 7 == 2:
            size = read_varint()
            yield key >> 3, data[at : at + size]
            at += size
        else:
            assert key & 7 == 5, key
            yield key >> 3, data[at : at + 4]
            at += 4


def read_pieces(path):
    """The bytes of each id."""
    pieces = []
    for number, value in read_fields(open(path, "rb").read()):
        if number == 1:
            piece = dict(read_fields(value))
            text = piece[1].decode()
            is_byte = piece.get(3, 1) == 6
            pieces.append(bytes([int(text[1:-1], 16)]) if is_byte else text.replace("\u2581", " ").encode())
    return pieces


model, text, ids, losses, evaluation = sys.argv[1:6]
text, ids, losses = open(text, "rb").read(), read_npy(ids), read_npy(losses)
evaluation, pieces = json.load(open(evaluation)), read_pieces(model)
assert b"".join(pieces[i] for i in ids) == text, "the ids are not those of the text"
if "--sentencepiece" in sys.argv:
    import sentencepiece

    encoder = sentencepiece.SentencePieceProcessor(model_file=model)
    expected = []
    for line in text.decode().split("\n"):
        expected += encoder.encode(line) + [encoder.piece_to_id("<0x0A>")]
    assert expected[:-1] == list(ids), "SentencePiece encodes otherwise"

# The first token is not scored.
assert len(losses) == evaluation["tokens"] <= len(ids) - 1
scored = b"".join(pieces[i] for i in ids[1 : len(losses) + 1])
bits = math.fsum(losses) / math.log(2)
words = len(scored.split()) + scored.count(b"\n")
expected = {"bytes": len(scored), "bits_per_byte": bits / len(scored), "words": words,
            "word_perplexity": math.exp(math.fsum(losses) / words)}
try:
    characters = len(codecs.getincrementaldecoder("utf-8")().decode(scored))  # whole ones
    expected |= {"characters": characters, "bits_per_character": bits / characters}
except UnicodeDecodeError:
    expected |= {"characters": None, "bits_per_character": None}
for key, value in expected.items():
    # Both sum f32 losses in double precision, in different orders.
    equal = evaluation[key] is None if value is None else math.isclose(value, evaluation[key], rel_tol=1e-12)
    assert equal, (key, value, evaluation[key])
print(", ".join("%s %s" % each for each in expected.items()))
