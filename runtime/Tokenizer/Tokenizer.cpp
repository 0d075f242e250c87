// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Tokenizer/Tokenizer.h"

#include "Characters.h"
#include "Codes.h"
#include "Pieces.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace sluice::runtime {
namespace {

constexpr std::string_view tokenizerMagic = "SLUICTOK";
constexpr uint32_t tokenizerVersion = 1;
constexpr size_t tokenizerHeader = 24; // magic, version, format, size of the model
constexpr size_t checksumBytes = sizeof(Sha256);

template <typename T> T getNumber(std::span<const uint8_t> file, size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

template <typename T> void addNumber(std::vector<uint8_t> &file, T value) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(&value);
  file.insert(file.end(), bytes, bytes + sizeof value);
}

/// Returns the file without its checksum.
std::vector<uint8_t> buildBody(SubwordFormat format, std::string_view model) {
  std::vector<uint8_t> file;
  file.reserve(tokenizerHeader + model.size() + checksumBytes);
  std::ranges::copy(asBytes(tokenizerMagic), std::back_inserter(file));
  addNumber(file, tokenizerVersion);
  addNumber(file, static_cast<uint32_t>(format));
  addNumber(file, static_cast<uint64_t>(model.size()));
  std::ranges::copy(asBytes(model), std::back_inserter(file));
  return file;
}

[[noreturn]] void failTokenizer(const std::string &origin, const std::string &found,
                                const std::string &remedy) {
  throw UserError(origin + ": expected a tokenizer, found " + found + "; " + remedy);
}

const SubwordToken &getToken(const std::vector<SubwordToken> &tokens, int32_t id) {
  if (id < 0 || static_cast<size_t>(id) >= tokens.size()) {
    throw UserError("token ids: expected 0 to " + std::to_string(tokens.size() - 1) + ", found " +
                    std::to_string(id) + "; name the tokenizer that they are from");
  }
  return tokens[static_cast<size_t>(id)];
}

/// Appends the bytes of a token. `needsSpace` is the state between two tokens.
void appendToken(const std::vector<SubwordToken> &tokens, int32_t id, bool &needsSpace,
                 std::string &text) {
  const SubwordToken &token = getToken(tokens, id);
  if (needsSpace && !token.isByte) {
    text += ' ';
  }
  text += token.bytes;
  needsSpace = token.endsWord;
}

} // namespace

size_t measureWholeCharacters(std::string_view text) {
  constexpr size_t mostIncomplete = 3;
  for (size_t tail = std::min(text.size(), mostIncomplete); tail > 0; --tail) {
    CharacterStart start = matchCharacter(text.substr(text.size() - tail));
    if (start.length > tail && start.valid == tail) {
      return text.size() - tail;
    }
  }
  return text.size();
}

struct Tokenizer::Contents {
  SubwordFormat format;
  std::string model;
  std::string hash;
  std::unique_ptr<SubwordModel> subwords;
};

Tokenizer Tokenizer::fromModel(SubwordFormat format, std::string model, const std::string &origin) {
  auto contents = std::make_shared<Contents>();
  contents->subwords =
      format == SubwordFormat::SentencePiece ? loadPieces(model, origin) : loadCodes(model, origin);
  contents->format = format;
  contents->hash = sha256Hex(buildBody(format, model));
  contents->model = std::move(model);
  Tokenizer tokenizer;
  tokenizer.contents = std::move(contents);
  return tokenizer;
}

Tokenizer Tokenizer::read(std::span<const uint8_t> file, const std::string &origin) {
  const std::string copyAgain = "copy it again, or write it anew with sluice tokenizer";
  if (file.size() < tokenizerMagic.size() ||
      std::memcmp(file.data(), tokenizerMagic.data(), tokenizerMagic.size()) != 0) {
    failTokenizer(origin, "another file", "name a file that sluice tokenizer wrote");
  }
  if (file.size() < tokenizerHeader) {
    failTokenizer(origin, "one that is cut short", copyAgain);
  }
  if (auto version = getNumber<uint32_t>(file, 8); version != tokenizerVersion) {
    failTokenizer(origin,
                  "one of version " + std::to_string(version) + " where this program reads " +
                      std::to_string(tokenizerVersion),
                  "write it anew with this version of sluice tokenizer");
  }
  auto modelBytes = getNumber<uint64_t>(file, 16);
  uint64_t rest = file.size() - tokenizerHeader;
  if (rest < checksumBytes || modelBytes > rest - checksumBytes) {
    failTokenizer(origin, "one that is cut short", copyAgain);
  }
  std::span<const uint8_t> body = file.first(file.size() - checksumBytes);
  Sha256 checksum = sha256(body);
  if (modelBytes < rest - checksumBytes ||
      !std::equal(checksum.begin(), checksum.end(), file.end() - checksumBytes)) {
    failTokenizer(origin, "one that is damaged: its checksum differs", copyAgain);
  }
  auto format = getNumber<uint32_t>(file, 12);
  if (format != 1 && format != 2) {
    failTokenizer(origin, "one with a model of an unknown format",
                  "write it anew with this version of sluice tokenizer");
  }
  std::span<const uint8_t> model = body.subspan(tokenizerHeader);
  return fromModel(static_cast<SubwordFormat>(format), {model.begin(), model.end()}, origin);
}

Tokenizer Tokenizer::open(const Path &path) {
  requireKind(path, FileKind::Tokenizer, "a tokenizer");
  return read(readBytes(path, "tokenizer"), showPath(path.native()));
}

std::vector<int32_t> Tokenizer::encode(std::span<const uint8_t> text) const {
  std::vector<int32_t> ids;
  contents->subwords->encode({reinterpret_cast<const char *>(text.data()), text.size()}, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  bool needsSpace = false;
  for (int32_t id : ids) {
    appendToken(contents->subwords->tokens(), id, needsSpace, text);
  }
  return text;
}

std::vector<int32_t> Tokenizer::findWordEnds(std::span<const int32_t> ids) const {
  const std::vector<SubwordToken> &tokens = contents->subwords->tokens();
  std::vector<int32_t> ends(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    bool isLast = i + 1 == ids.size();
    ends[i] = getToken(tokens, ids[i]).endsWord || isLast ||
              getToken(tokens, ids[i + 1]).bytes.starts_with(' ');
  }
  return ends;
}

int64_t Tokenizer::size() const {
  return static_cast<int64_t>(contents->subwords->tokens().size());
}
const std::string &Tokenizer::hash() const { return contents->hash; }
std::string_view Tokenizer::kind() const { return contents->subwords->kind(); }
SubwordFormat Tokenizer::format() const { return contents->format; }
std::string_view Tokenizer::model() const { return contents->model; }

std::vector<uint8_t> Tokenizer::toFile() const {
  std::vector<uint8_t> file = buildBody(contents->format, contents->model);
  Sha256 checksum = sha256(file);
  file.insert(file.end(), checksum.begin(), checksum.end());
  return file;
}

void Tokenizer::save(const Path &path) const { replaceFile(path, toFile()); }

std::string TokenDecoder::push(int32_t id) {
  appendToken(tokenizer.contents->subwords->tokens(), id, needsSpace, incomplete);
  size_t whole = measureWholeCharacters(incomplete);
  std::string text = incomplete.substr(0, whole);
  incomplete.erase(0, whole);
  return text;
}

std::string TokenDecoder::finish() {
  needsSpace = false;
  return std::exchange(incomplete, {});
}

} // namespace sluice::runtime
