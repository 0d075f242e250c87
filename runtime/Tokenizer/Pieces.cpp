// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encodes with SentencePiece the parts of a text that SentencePiece returns unchanged, and other
// bytes with the tokens of the byte fallback.
#include "Pieces.h"

#include "Characters.h"
#include "PieceFile.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Text.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace sluice::runtime {
namespace {

constexpr std::string_view unknownText = "\xef\xbf\xbd"; // U+FFFD

[[noreturn]] void failPieces(const std::string &origin, const std::string &expected,
                             const std::string &found, const std::string &remedy) {
  throw UserError(origin + ": expected " + expected + ", found " + found + "; " + remedy);
}

/// Returns the text of a piece: SentencePiece writes U+2581 for a space.
std::string replaceSpaceMarks(std::string text) {
  for (size_t at = text.find(spaceMark); at != std::string::npos;
       at = text.find(spaceMark, at + 1)) {
    text.replace(at, spaceMark.size(), " ");
  }
  return text;
}

class Pieces : public SubwordModel {
public:
  Pieces(std::string_view model, const std::string &origin) {
    PieceFile file = parsePieceFile(model, origin);
    checkSettings(file, origin);
    addTokens(file, origin);
    auto status = processor.LoadFromSerializedProto(model);
    if (!status.ok() || processor.GetPieceSize() != static_cast<int>(all.size())) {
      failPieces(origin, "a model that SentencePiece loads",
                 status.ok() ? std::string("another number of pieces")
                             : quote(status.ToString(), 200),
                 "train the model again");
    }
  }

  std::string_view kind() const override { return kindName; }
  const std::vector<SubwordToken> &tokens() const override { return all; }

  void encode(std::string_view text, std::vector<int32_t> &ids) const override {
    std::vector<int> part;
    for (size_t at = 0; at < text.size();) {
      size_t end = findPartEnd(text, at);
      if (end == at) { // a byte between parts; a space mark is three of them
        ids.push_back(byteIds[static_cast<uint8_t>(text[at])]);
        ++at;
        continue;
      }
      encodePart(text.substr(at, end - at), part, ids);
      at = end;
    }
  }

private:
  void checkSettings(const PieceFile &file, const std::string &origin) {
    if (file.changesText()) {
      failPieces(origin, "a SentencePiece model that normalizes nothing",
                 "one that changes text before it is encoded",
                 "import it: sluice tokenizer --import M.model -o TOK switches this off");
    }
    constexpr std::array names = {"unigram", "bpe", "words", "characters"};
    if (file.modelType < 1 || file.modelType > names.size() || file.modelType == 3) {
      failPieces(origin, "a SentencePiece model of kind bpe, unigram or characters",
                 file.modelType == 3 ? "one of words" : "one of an unknown kind",
                 "train a tokenizer of these kinds");
    }
    kindName = names[file.modelType - 1];
  }

  void addTokens(const PieceFile &file, const std::string &origin) {
    byteIds.fill(-1);
    int unknowns = 0;
    for (const Piece &piece : file.pieces) {
      auto id = static_cast<int32_t>(all.size());
      unsigned byte = 0;
      switch (piece.type) {
      case PieceType::Byte:
        if (std::sscanf(piece.text.c_str(), "<0x%2X>", &byte) != 1 ||
            piece.text != format("<0x%02X>", byte)) {
          failPieces(origin, "<0x00> to <0xFF> as pieces of bytes", quote(piece.text),
                     "train the model again");
        }
        byteIds[byte] = id;
        all.push_back({std::string(1, static_cast<char>(byte)), true, false});
        break;
      case PieceType::Control:
        all.push_back({});
        break;
      case PieceType::Unknown:
        ++unknowns;
        all.push_back({std::string(unknownText)});
        break;
      default:
        all.push_back({replaceSpaceMarks(piece.text)});
      }
    }
    int64_t bytes = std::ranges::count_if(byteIds, [](int32_t id) { return id >= 0; });
    if (bytes != 256 || unknowns != 1) {
      failPieces(
          origin, "a SentencePiece model with byte fallback and one piece for unknowns",
          format("%d pieces of bytes and %d for unknowns", static_cast<int>(bytes), unknowns),
          "train it with --byte_fallback=true, or train with sluice tokenizer --data");
    }
  }

  /// Appends the ids of SentencePiece if they decode to `part`, and the ids of its bytes otherwise.
  void encodePart(std::string_view part, std::vector<int> &scratch,
                  std::vector<int32_t> &ids) const {
    if (processor.Encode(part, &scratch).ok() && isEncoding(scratch, part)) {
      ids.insert(ids.end(), scratch.begin(), scratch.end());
      return;
    }
    for (char c : part) {
      ids.push_back(byteIds[static_cast<uint8_t>(c)]);
    }
  }

  bool isEncoding(const std::vector<int> &ids, std::string_view text) const {
    for (int id : ids) {
      if (id < 0 || static_cast<size_t>(id) >= all.size() || !text.starts_with(all[id].bytes)) {
        return false;
      }
      text.remove_prefix(all[id].bytes.size());
    }
    return text.empty();
  }

  sentencepiece::SentencePieceProcessor processor;
  std::vector<SubwordToken> all;
  std::array<int32_t, 256> byteIds{};
  std::string_view kindName;
};

} // namespace

std::unique_ptr<SubwordModel> loadPieces(std::string_view model, const std::string &origin) {
  return std::make_unique<Pieces>(model, origin);
}

} // namespace sluice::runtime
