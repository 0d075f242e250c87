// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "PieceFile.h"

#include "sluice/Support/ByteString.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

namespace sluice::runtime {
namespace {

using namespace std::string_view_literals;

/// Types of fields on the wire.
enum WireType : uint64_t { wireVarint = 0, wireFixed64 = 1, wireBytes = 2, wireFixed32 = 5 };

struct WireField {
  uint64_t number = 0, type = 0;
  uint64_t value = 0;     ///< of integers
  std::string_view bytes; ///< of texts and messages
};

/// Reads the fields of a message of a protocol buffer.
class WireReader {
public:
  WireReader(std::string_view message, const std::string &origin) : rest(message), origin(origin) {}

  /// Returns false at the end of the message.
  bool next(WireField &field) {
    if (rest.empty()) {
      return false;
    }
    uint64_t key = readVarint();
    field = {key >> 3, key & 7, 0, {}};
    switch (field.type) {
    case wireVarint:
      field.value = readVarint();
      break;
    case wireFixed64:
      field.value = readFixed<uint64_t>();
      break;
    case wireFixed32:
      field.value = readFixed<uint32_t>();
      break;
    case wireBytes:
      field.bytes = take(readVarint());
      break;
    default:
      fail("a field of an unknown type");
    }
    return true;
  }

  [[noreturn]] void fail(const std::string &found) const {
    throw UserError(origin + ": expected a SentencePiece model, found " + found +
                    "; give a file that SentencePiece wrote");
  }

private:
  std::string_view take(uint64_t count) {
    if (count > rest.size()) {
      fail("one that is cut short or damaged");
    }
    std::string_view bytes = rest.substr(0, count);
    rest.remove_prefix(count);
    return bytes;
  }

  template <typename T> T readFixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  uint64_t readVarint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) {
        return value;
      }
    }
    fail("a number of more than 64 bits");
  }

  std::string_view rest;
  const std::string &origin;
};

Piece readPiece(std::string_view message, const std::string &origin) {
  WireReader reader(message, origin);
  WireField field;
  Piece piece;
  while (reader.next(field)) {
    if (field.number == 1 && field.type == wireBytes) {
      piece.text = field.bytes;
    } else if (field.number == 2 && field.type == wireFixed32) {
      piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    } else if (field.number == 3 && field.type == wireVarint) {
      piece.type = static_cast<PieceType>(field.value);
    }
  }
  if (piece.text.empty() || piece.text.find('\0') != std::string::npos || !isUtf8(piece.text)) {
    reader.fail("the piece " + quote(piece.text) + ", which is not a text");
  }
  if (!std::isfinite(piece.score)) {
    reader.fail("the piece " + quote(piece.text) + " with a score that is not finite");
  }
  if (piece.type < PieceType::Normal || piece.type > PieceType::Byte) {
    reader.fail("the piece " + quote(piece.text) + " of an unknown type");
  }
  return piece;
}

/// Reads the message NormalizerSpec of text (`isDecoding` false) or of decoded text.
void readNormalizer(std::string_view message, const std::string &origin, bool isDecoding,
                    PieceFile &file) {
  WireReader reader(message, origin);
  WireField field;
  while (reader.next(field)) {
    if (field.number == 2 && field.type == wireBytes) {
      (isDecoding ? file.hasDenormalization : file.hasNormalization) = !field.bytes.empty();
    } else if (field.type == wireVarint && !isDecoding) {
      bool isOn = field.value != 0;
      switch (field.number) {
      case 3:
        file.addsPrefix = isOn;
        break;
      case 4:
        file.removesWhitespace = isOn;
        break;
      case 5:
        file.escapesWhitespace = isOn;
        break;
      }
    }
  }
}

} // namespace

PieceFile parsePieceFile(std::string_view model, const std::string &origin) {
  WireReader reader(model, origin);
  WireField field;
  PieceFile file;
  std::unordered_set<std::string> known;
  while (reader.next(field)) {
    if (field.type != wireBytes) {
      continue;
    }
    if (field.number == 1) {
      file.pieces.push_back(readPiece(field.bytes, origin));
      if (!known.insert(file.pieces.back().text).second) {
        reader.fail("the piece " + quote(file.pieces.back().text) + " twice");
      }
    } else if (field.number == 2) {
      WireReader trainer(field.bytes, origin);
      for (WireField setting; trainer.next(setting);) {
        if (setting.number == 3 && setting.type == wireVarint) {
          file.modelType = setting.value;
        }
      }
    } else if (field.number == 3 || field.number == 5) {
      readNormalizer(field.bytes, origin, field.number == 5, file);
    }
  }
  if (file.pieces.empty()) {
    reader.fail("one without pieces");
  }
  return file;
}

std::string_view getLosslessSettings() {
  // normalizer_spec { precompiled_charsmap: "" add_dummy_prefix: false
  // remove_extra_whitespaces: false escape_whitespaces: true }
  // denormalizer_spec { precompiled_charsmap: "" }
  return "\x1a\x08\x12\x00\x18\x00\x20\x00\x28\x01\x2a\x02\x12\x00"sv;
}

} // namespace sluice::runtime
