// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Trailer.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <cstring>

namespace sluice {
namespace {

constexpr char magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', '\r', '\n'};

template <typename T> void store(uint8_t *at, T value) { std::memcpy(at, &value, sizeof value); }
template <typename T> T fetch(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

[[noreturn]] void refuse(const std::string &origin, const std::string &what) {
  throw UserError(origin + ": " + what + "; compile the spec again");
}

} // namespace

std::array<uint8_t, trailerBytes> makeTrailer(std::span<const uint8_t> elf) {
  std::array<uint8_t, trailerBytes> trailer{};
  std::memcpy(trailer.data(), magic, sizeof magic);
  store<uint32_t>(trailer.data() + 8, artifactVersion);
  store<uint64_t>(trailer.data() + 16, elf.size());
  Sha256 hash = sha256(elf);
  std::copy(hash.begin(), hash.end(), trailer.begin() + 24);
  Sha256 own = sha256(std::span(trailer).first(56));
  std::copy_n(own.begin(), 8, trailer.begin() + 56);
  return trailer;
}

std::span<const uint8_t> checkTrailer(std::span<const uint8_t> file, const std::string &origin) {
  if (file.size() < trailerBytes ||
      std::memcmp(file.data() + file.size() - trailerBytes, magic, sizeof magic) != 0) {
    refuse(origin, "expected a Sluice artifact, found a file without its trailer (another kind of "
                   "file, or cut short)");
  }
  std::span<const uint8_t> trailer = file.last(trailerBytes),
                           elf = file.first(file.size() - trailerBytes);
  Sha256 own = sha256(trailer.first(56));
  if (!std::equal(own.begin(), own.begin() + 8, trailer.begin() + 56)) {
    refuse(origin, "the artifact's trailer is damaged (its checksum differs)");
  }
  if (uint32_t version = fetch<uint32_t>(trailer.data() + 8); version != artifactVersion) {
    refuse(origin, "expected artifact format " + std::to_string(artifactVersion) +
                       ", found format " + std::to_string(version));
  }
  if (fetch<uint32_t>(trailer.data() + 12) != 0) {
    refuse(origin, "the artifact's trailer uses a field that this version does not know");
  }
  if (uint64_t size = fetch<uint64_t>(trailer.data() + 16); size != elf.size()) {
    refuse(origin, "expected " + std::to_string(size) +
                       " bytes before the artifact's trailer, found " + std::to_string(elf.size()));
  }
  Sha256 hash = sha256(elf);
  if (!std::equal(hash.begin(), hash.end(), trailer.begin() + 24)) {
    refuse(origin, "the artifact is damaged (the SHA-256 of its contents differs)");
  }
  return elf;
}

} // namespace sluice
