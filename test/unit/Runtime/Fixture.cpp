// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Support/Error.h"

#include <openssl/sha.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace sluice::test {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
  path = ::mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void writeFile(const Path &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  ASSERT_TRUE(file.good()) << path;
}

std::string readFile(const Path &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string bigramLibrary() { return readFile(BIGRAM_LIBRARY); }

std::string withTrailer(const std::string &elf) {
  auto hash = [](const std::string &text) {
    std::string digest(32, 0);
    SHA256(reinterpret_cast<const unsigned char *>(text.data()), text.size(),
           reinterpret_cast<unsigned char *>(digest.data()));
    return digest;
  };
  auto little = [](uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      text += static_cast<char>(value >> (8 * i) & 255);
    }
    return text;
  };
  std::string trailer =
      "SLUICE\r\n" + little(2, 4) + little(0, 4) + little(elf.size(), 8) + hash(elf);
  return elf + trailer + hash(trailer).substr(0, 8);
}

std::shared_ptr<const runtime::Artifact> bigramArtifact(const TemporaryFolder &folder) {
  writeFile(folder / "bigram.slc", withTrailer(bigramLibrary()));
  return runtime::Artifact::load(folder / "bigram.slc");
}

std::shared_ptr<const runtime::Artifact> gpuBigramArtifact(const TemporaryFolder &folder) {
  writeFile(folder / "gpu.slc", withTrailer(readFile(BIGRAM_GPU_LIBRARY)));
  return runtime::Artifact::load(folder / "gpu.slc");
}

std::string easyText(size_t length, unsigned seed) {
  std::string text;
  unsigned state = seed, letter = 0;
  while (text.size() < length) {
    state = state * 1664525 + 1013904223;
    letter = (state >> 24) < 40 ? (state >> 16) % 26 : (letter * 3 + 1) % 26;
    text += static_cast<char>('a' + letter);
  }
  return text;
}

std::string userError(const std::function<void()> &action) {
  try {
    action();
  } catch (const UserError &error) {
    return error.what();
  }
  ADD_FAILURE() << "expected a UserError";
  return "";
}

nlohmann::json bigramPlan() { return nlohmann::json::parse(readFile(BIGRAM_PLAN)); }

} // namespace sluice::test
