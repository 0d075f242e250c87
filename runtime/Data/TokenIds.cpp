// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/TokenIds.h"

#include "sluice/Runtime/Data/NpyHeader.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sluice::runtime {

static_assert(std::endian::native == std::endian::little, "ids are copied from files");

size_t TokenLayout::idBytes() const {
  switch (type) {
  case TokenType::Byte:
    return 1;
  case TokenType::Uint16:
    return sizeof(uint16_t);
  case TokenType::Int32:
    return sizeof(int32_t);
  }
  return 1;
}

std::string_view TokenLayout::typeName() const {
  switch (type) {
  case TokenType::Byte:
    return "bytes";
  case TokenType::Uint16:
    return "uint16";
  case TokenType::Int32:
    return "int32";
  }
  return "";
}

std::pair<std::string, Path> splitTokenPath(const Path &given) {
  const std::string &name = given.native();
  if (!name.starts_with(uint16Prefix)) {
    return {"", given};
  }
  return {std::string(uint16Prefix.substr(0, uint16Prefix.size() - 1)),
          name.substr(uint16Prefix.size())};
}

std::optional<TokenLayout> findNpyIds(const FileContents &contents, const std::string &name) {
  constexpr size_t longestHeader = size_t(1) << 16;
  std::vector<uint8_t> head = contents.read(0, longestHeader);
  if (!isNpy(head)) {
    return std::nullopt;
  }
  NpyHeader header = parseNpyHeader(head);
  auto refuse = [&](const std::string &found, const std::string &remedy) {
    throw FormatError(name + ": expected token ids, a NumPy array of one dimension of uint16 or " +
                      "int32, found " + found + "; " + remedy);
  };
  if (!header.problem.empty()) {
    refuse(header.problem, "write it with numpy.save");
  }
  TokenLayout layout{TokenType::Uint16, header.start};
  if (header.isInt32()) {
    layout.type = TokenType::Int32;
  } else if (!header.isUint16()) {
    refuse("numbers of the type " + quote(header.type),
           "convert it: numpy.save(FILE, ids.astype(numpy.int32))");
  }
  if (header.shape.size() != 1) {
    refuse("the shape " + header.showShape(), "flatten it: numpy.save(FILE, ids.reshape(-1))");
  }
  size_t bytes = contents.size() - header.start;
  auto count = static_cast<size_t>(header.shape.front());
  if (bytes % layout.idBytes() != 0 || bytes / layout.idBytes() != count) {
    throw FormatError(name + ": expected " + std::to_string(count) + " ids of " +
                      std::to_string(layout.idBytes()) + " bytes after the header, found " +
                      std::to_string(bytes) + " bytes; write the file again");
  }
  return layout;
}

TokenLayout makeUint16Layout(const FileContents &contents, const std::string &name) {
  TokenLayout layout{TokenType::Uint16, 0};
  if (contents.size() % layout.idBytes() != 0) {
    throw FormatError(name + ": expected an even number of bytes, as each uint16 id has 2, found " +
                      std::to_string(contents.size()) + "; write the file again");
  }
  return layout;
}

void readIds(const FileContents &contents, const TokenLayout &layout, size_t first,
             std::span<int32_t> into) {
  auto read = [&]<typename Id>(std::span<Id> ids) {
    contents.read(layout.start + first * sizeof(Id),
                  {reinterpret_cast<uint8_t *>(ids.data()), ids.size_bytes()});
  };
  if (layout.type == TokenType::Int32) {
    read(into);
  } else if (layout.type == TokenType::Uint16) {
    std::vector<uint16_t> ids(into.size());
    read(std::span(ids));
    std::ranges::copy(ids, into.begin());
  } else {
    std::vector<uint8_t> ids(into.size());
    read(std::span(ids));
    std::ranges::copy(ids, into.begin());
  }
}

void checkIds(const FileContents &contents, const TokenLayout &layout, int64_t vocabulary,
              const std::string &name) {
  bool canBeWrong = layout.type == TokenType::Int32 || vocabulary < int64_t(1)
                                                                        << (8 * layout.idBytes());
  if (!canBeWrong) {
    return;
  }
  size_t count = layout.countIds(contents.size());
  constexpr size_t idsAtOnce = size_t(1) << 18;
  std::vector<int32_t> ids;
  for (size_t first = 0; first < count; first += idsAtOnce) {
    ids.resize(std::min(idsAtOnce, count - first));
    readIds(contents, layout, first, ids);
    auto wrong = std::ranges::find_if(ids, [&](int32_t id) { return id < 0 || id >= vocabulary; });
    if (wrong != ids.end()) {
      throw UserError(name + (layout.isBytes() ? ": byte " : ": token ") +
                      std::to_string(first + static_cast<size_t>(wrong - ids.begin())) +
                      ": expected token ids " + (*wrong < 0 ? "from 0 on, " : "") +
                      "below the vocabulary of " + std::to_string(vocabulary) + ", found " +
                      std::to_string(*wrong) +
                      (layout.isBytes() ? "; raise the spec's vocabulary to 256 or clean the file"
                                        : "; raise the spec's vocabulary, or give the ids of this "
                                          "model's tokenizer"));
    }
  }
}

} // namespace sluice::runtime
