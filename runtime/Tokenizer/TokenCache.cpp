// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Tokenizer/TokenCache.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

namespace sluice::runtime {
namespace {

// The file: a header of 64 bytes; the ids; one entry for each text; a trailer. Numbers are
// little-endian.
constexpr std::string_view cacheMagic = "SLUICIDS";
constexpr uint32_t cacheVersion = 1;
constexpr size_t cacheHeader = 64; // magic, version, bytes of an id, zeros
constexpr size_t pieceBytes = size_t(1) << 20;

struct TextEntry {
  uint64_t tokens, bytes;
  Sha256 hash;
};
static_assert(sizeof(TextEntry) == 48);

struct CacheTrailer {
  uint64_t texts, tokens;
  std::array<char, 64> tokenizer; ///< Tokenizer::hash
  Sha256 ids;                     ///< SHA-256 of the SHA-256 of each MiB of the ids
  Sha256 table;                   ///< SHA-256 of the header, the entries and the trailer up to here
};
static_assert(sizeof(CacheTrailer) == 144);

template <typename T> std::span<const uint8_t> viewBytes(const T &value) {
  return {reinterpret_cast<const uint8_t *>(&value), sizeof value};
}

Sha256 computeTableHash(std::span<const uint8_t> header, std::span<const TextEntry> entries,
                        const CacheTrailer &trailer) {
  std::vector<uint8_t> all(header.begin(), header.end());
  const auto *table = reinterpret_cast<const uint8_t *>(entries.data());
  all.insert(all.end(), table, table + entries.size_bytes());
  std::span<const uint8_t> rest = viewBytes(trailer).first(sizeof trailer - sizeof trailer.table);
  all.insert(all.end(), rest.begin(), rest.end());
  return sha256(all);
}

Sha256 parseHash(const std::string &hex) {
  Sha256 hash{};
  for (size_t i = 0; i < hash.size(); ++i) {
    hash[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return hash;
}

/// Hashes the ids of a file MiB by MiB, so that they need not be in memory.
class IdsHash {
public:
  void add(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      size_t count = std::min(bytes.size(), pieceBytes - piece.size());
      piece.insert(piece.end(), bytes.begin(), bytes.begin() + static_cast<int64_t>(count));
      bytes = bytes.subspan(count);
      if (piece.size() == pieceBytes) {
        close();
      }
    }
  }
  Sha256 finish() {
    if (!piece.empty()) {
      close();
    }
    return sha256(hashes);
  }

private:
  void close() {
    Sha256 hash = sha256(piece);
    hashes.insert(hashes.end(), hash.begin(), hash.end());
    piece.clear();
  }
  std::vector<uint8_t> piece, hashes;
};

/// Encodes a text in pieces that end with lines, on several threads, and calls `take` with the ids
/// in order.
void encodeLines(const FileContents &text, const Tokenizer &tokenizer, int threads,
                 const std::function<void(const std::vector<int32_t> &)> &take) {
  std::vector<std::vector<uint8_t>> pieces;
  std::vector<uint8_t> rest;
  auto encodePieces = [&] {
    std::vector<std::vector<int32_t>> ids(pieces.size());
    {
      std::vector<std::jthread> workers;
      for (size_t i = 1; i < pieces.size(); ++i) {
        workers.emplace_back([&, i] { ids[i] = tokenizer.encode(pieces[i]); });
      }
      if (!pieces.empty()) {
        ids[0] = tokenizer.encode(pieces[0]);
      }
    }
    std::ranges::for_each(ids, take);
    pieces.clear();
  };
  text.forEachPiece([&](size_t, std::span<const uint8_t> bytes) {
    auto last = std::find(bytes.rbegin(), bytes.rend(), '\n').base(); // after the last line break
    rest.insert(rest.end(), bytes.begin(), last);
    if (last != bytes.begin()) {
      pieces.push_back(std::exchange(rest, {}));
    }
    rest.insert(rest.end(), last, bytes.end());
    if (pieces.size() >= static_cast<size_t>(threads)) {
      encodePieces();
    }
  });
  pieces.push_back(std::move(rest));
  encodePieces();
}

void writeCache(const std::vector<ByteFile> &texts, const Tokenizer &tokenizer, const Path &path,
                int threads) {
  OutputFile file(path);
  uint32_t width = tokenizer.size() <= 65536 ? 2 : 4;
  std::vector<uint8_t> header(cacheHeader);
  std::ranges::copy(cacheMagic, header.begin());
  std::memcpy(header.data() + 8, &cacheVersion, sizeof cacheVersion);
  std::memcpy(header.data() + 12, &width, sizeof width);
  file.write(header);
  std::vector<TextEntry> entries;
  CacheTrailer trailer{};
  IdsHash hash;
  for (const ByteFile &text : texts) {
    TextEntry &entry = entries.emplace_back();
    entry = {0, text.bytes.size(), parseHash(text.bytes.sha256Hex())};
    encodeLines(text.bytes, tokenizer, threads, [&](const std::vector<int32_t> &ids) {
      std::vector<uint8_t> bytes(ids.size() * width);
      for (size_t i = 0; i < ids.size(); ++i) {
        std::memcpy(bytes.data() + i * width, &ids[i], width);
      }
      hash.add(bytes);
      file.write(bytes);
      entry.tokens += ids.size();
    });
    trailer.tokens += entry.tokens;
  }
  trailer.texts = entries.size();
  std::ranges::copy(tokenizer.hash(), trailer.tokenizer.begin());
  trailer.ids = hash.finish();
  trailer.table = computeTableHash(header, entries, trailer);
  file.write(
      {reinterpret_cast<const uint8_t *>(entries.data()), entries.size() * sizeof(TextEntry)});
  file.write(viewBytes(trailer));
  file.finish();
}

} // namespace

TokenCache TokenCache::open(const Path &path, const std::vector<ByteFile> &texts,
                            const Tokenizer &tokenizer) {
  std::string shown = showPath(path.native());
  auto fail = [&](const std::string &found) {
    throw UserError(shown + ": expected the token ids of these texts by this tokenizer, found " +
                    found + "; remove the file, and it is written again");
  };
  requireKind(path, FileKind::TokenCache, "a cache of token ids");
  TokenCache cache;
  cache.file = FileContents::open(path, "cache of token ids");
  std::vector<uint8_t> header = cache.file.read(0, cacheHeader);
  if (header.size() < cacheHeader || !std::ranges::equal(std::span(header).first(8), cacheMagic)) {
    fail("another file");
  }
  uint32_t version = 0, width = 0;
  std::memcpy(&version, header.data() + 8, sizeof version);
  std::memcpy(&width, header.data() + 12, sizeof width);
  if (version != cacheVersion || (width != 2 && width != 4)) {
    fail("a cache of version " + std::to_string(version));
  }
  size_t rest = cache.file.size() - cacheHeader;
  CacheTrailer trailer{};
  if (rest < sizeof trailer) {
    fail("a cache that is cut short");
  }
  rest -= sizeof trailer;
  cache.file.read(cacheHeader + rest, {reinterpret_cast<uint8_t *>(&trailer), sizeof trailer});
  if (trailer.texts > rest / sizeof(TextEntry) || trailer.tokens > rest / width ||
      trailer.texts * sizeof(TextEntry) + trailer.tokens * width != rest) {
    fail("a cache that is cut short or damaged");
  }
  std::vector<TextEntry> entries(trailer.texts);
  size_t idsEnd = cacheHeader + trailer.tokens * width;
  cache.file.read(
      idsEnd, {reinterpret_cast<uint8_t *>(entries.data()), entries.size() * sizeof(TextEntry)});
  if (computeTableHash(header, entries, trailer) != trailer.table) {
    fail("a cache that is damaged: its checksum differs");
  }
  if (!std::ranges::equal(trailer.tokenizer, tokenizer.hash())) {
    fail("those of another tokenizer");
  }
  if (entries.size() != texts.size()) {
    fail("those of " + std::to_string(entries.size()) + " texts in place of " +
         std::to_string(texts.size()));
  }
  uint64_t start = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const TextEntry &entry = entries[i];
    if (entry.bytes != texts[i].bytes.size() || toHex(entry.hash) != texts[i].bytes.sha256Hex()) {
      fail("those of other bytes than " + showPath(texts[i].path.native()) + " has");
    }
    cache.ranges.push_back({static_cast<int64_t>(start), static_cast<int64_t>(entry.tokens),
                            static_cast<int64_t>(entry.bytes), toHex(entry.hash)});
    start += entry.tokens;
  }
  IdsHash hash;
  cache.file.forEachPiece([&](size_t, std::span<const uint8_t> bytes) { hash.add(bytes); },
                          cacheHeader, idsEnd);
  if (start != trailer.tokens || hash.finish() != trailer.ids) {
    fail("a cache that is damaged: its checksum differs");
  }
  cache.tokens = static_cast<int64_t>(trailer.tokens);
  cache.width = width;
  return cache;
}

TokenLayout TokenCache::layout() const {
  return {width == sizeof(int32_t) ? TokenType::Int32 : TokenType::Uint16, cacheHeader,
          cacheHeader + static_cast<size_t>(tokens * width)};
}

void TokenCache::read(int64_t start, std::span<int32_t> ids) const {
  size_t from = cacheHeader + static_cast<size_t>(start * width);
  if (width == sizeof(int32_t)) {
    file.read(from, {reinterpret_cast<uint8_t *>(ids.data()), ids.size_bytes()});
    return;
  }
  std::vector<uint16_t> narrow(ids.size());
  file.read(from, {reinterpret_cast<uint8_t *>(narrow.data()), narrow.size() * sizeof(uint16_t)});
  std::ranges::copy(narrow, ids.begin());
}

TokenCache tokenizeToCache(const std::vector<ByteFile> &texts, const Tokenizer &tokenizer,
                           const Path &path, int threads) {
  FileKind found = recognizeFile(path);
  if (found == FileKind::TokenCache) {
    try {
      return TokenCache::open(path, texts, tokenizer);
    } catch (const UserError &) { // of other texts, or damaged
    }
  } else if (found != FileKind::Missing && found != FileKind::Empty) {
    throw UserError(showPath(path.native()) + ": expected a cache of token ids or no file, found " +
                    std::string(describe(found)) + "; name another file");
  }
  // Another process may remove or replace the file between these two steps.
  constexpr int mostAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    writeCache(texts, tokenizer, path, std::max(1, threads));
    try {
      return TokenCache::open(path, texts, tokenizer);
    } catch (const UserError &) {
      if (attempt == mostAttempts) {
        throw;
      }
    }
  }
}

} // namespace sluice::runtime
