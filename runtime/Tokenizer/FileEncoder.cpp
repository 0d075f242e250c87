// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Tokenizer/FileEncoder.h"

#include "sluice/Runtime/Tokenizer/TokenCache.h"
#include "sluice/Support/Error.h"

#include <cstdlib>

namespace sluice::runtime {
namespace {

Path findTokenFolder() {
  auto get = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (std::string base = get("XDG_CACHE_HOME"); !base.empty()) {
    return Path(base) / "sluice" / "tokens";
  }
  if (std::string home = get("HOME"); !home.empty()) {
    return Path(home) / ".cache" / "sluice" / "tokens";
  }
  throw UserError("expected a folder for the token ids of texts, found neither XDG_CACHE_HOME nor "
                  "HOME in the environment; set XDG_CACHE_HOME");
}

class FileEncoder : public TextEncoder, public std::enable_shared_from_this<FileEncoder> {
public:
  FileEncoder(Tokenizer tokenizer, int threads, Path folder)
      : tokenizer(std::move(tokenizer)), threads(threads), folder(std::move(folder)) {}

  ByteFile encodeFile(ByteFile text) const override {
    Path home = folder.empty() ? findTokenFolder() : folder;
    makeFolder(home);
    constexpr size_t digits = 32;
    std::string name = text.bytes.sha256Hex().substr(0, digits) + "-" +
                       tokenizer.hash().substr(0, digits) + ".ids";
    TokenCache cache = tokenizeToCache({text}, tokenizer, home / name, threads);
    text.text = text.bytes;
    text.bytes = cache.contents();
    text.layout = cache.layout();
    text.encoder = shared_from_this();
    return text;
  }
  std::vector<int32_t> encode(std::string_view text) const override {
    return tokenizer.encode(asBytes(text));
  }
  std::string decode(std::span<const int32_t> ids) const override { return tokenizer.decode(ids); }
  int64_t size() const override { return tokenizer.size(); }
  std::vector<uint8_t> toFile() const override { return tokenizer.toFile(); }

private:
  Tokenizer tokenizer;
  int threads;
  Path folder;
};

} // namespace

std::shared_ptr<const TextEncoder> makeFileEncoder(const Tokenizer &tokenizer, int threads,
                                                   const Path &folder) {
  return std::make_shared<FileEncoder>(tokenizer, threads, folder);
}

} // namespace sluice::runtime
