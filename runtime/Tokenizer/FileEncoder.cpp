// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Tokenizer/FileEncoder.h"

#include "sluice/Runtime/Tokenizer/TokenCache.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace sluice::runtime {
namespace {

constexpr size_t hashDigits = 32;
constexpr std::string_view idsSuffix = ".ids";

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

uint64_t findMostBytes() {
  constexpr uint64_t usual = uint64_t(4) << 30;
  const char *value = std::getenv("SLUICE_TOKEN_CACHE_SIZE");
  std::string size = value ? value : "";
  std::optional<int64_t> bytes = findByteSize(size);
  if (!size.empty() && !bytes) {
    throw UserError("SLUICE_TOKEN_CACHE_SIZE: expected a size such as 512MiB, 1.5GiB or 1000000 "
                    "(bytes), found " +
                    quote(size) + "; change or unset it");
  }
  return bytes ? static_cast<uint64_t>(*bytes) : usual;
}

struct StoredIds {
  Path path;
  uint64_t bytes = 0;
  std::pair<int64_t, int64_t> used; ///< seconds, nanoseconds
};

/// Checks for a name as `encodeFile` builds it: two hashes with a dash between them.
bool isIdsName(std::string_view name) {
  if (name.size() != 2 * hashDigits + 1 || name[hashDigits] != '-') {
    return false;
  }
  constexpr std::string_view digits = "0123456789abcdef";
  return name.substr(0, hashDigits).find_first_not_of(digits) == std::string_view::npos &&
         name.substr(hashDigits + 1).find_first_not_of(digits) == std::string_view::npos;
}

/// Sets the time of access alone: another time of change would look like a rewritten file to other
/// processes.
void markUsed(const Path &path) {
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, path.c_str(), times, 0); // has no effect in a read-only folder
}

class FileEncoder : public TextEncoder, public std::enable_shared_from_this<FileEncoder> {
public:
  FileEncoder(Tokenizer tokenizer, int threads, Path folder)
      : tokenizer(std::move(tokenizer)), threads(threads), folder(std::move(folder)),
        mostBytes(findMostBytes()) {}

  ByteFile encodeFile(ByteFile text) const override {
    Path home = folder.empty() ? findTokenFolder() : folder;
    makeFolder(home);
    std::string name = text.bytes.sha256Hex().substr(0, hashDigits) + "-" +
                       tokenizer.hash().substr(0, hashDigits) + std::string(idsSuffix);
    TokenCache cache = tokenizeToCache({text}, tokenizer, home / name, threads);
    markUsed(home / name);
    trimTokenFolder(home, mostBytes); // the opened file can be read even if this removes it
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
  std::vector<int32_t> findWordEnds(std::span<const int32_t> ids) const override {
    return tokenizer.findWordEnds(ids);
  }
  int64_t size() const override { return tokenizer.size(); }
  std::vector<uint8_t> toFile() const override { return tokenizer.toFile(); }
  const std::string &hash() const override { return tokenizer.hash(); }

private:
  Tokenizer tokenizer;
  int threads;
  Path folder;
  uint64_t mostBytes;
};

} // namespace

void trimTokenFolder(const Path &folder, uint64_t mostBytes) {
  constexpr time_t mostSeconds = 3600;
  std::vector<StoredIds> files;
  uint64_t total = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entries(folder, error), end; !error && entries != end;
       entries.increment(error)) {
    std::string name = entries->path().filename().native();
    size_t suffix = name.find(idsSuffix);
    struct stat status{};
    if (suffix == std::string::npos || !isIdsName(std::string_view(name).substr(0, suffix)) ||
        ::lstat(entries->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      continue;
    }
    std::string_view rest = std::string_view(name).substr(suffix + idsSuffix.size());
    if (rest.starts_with(".tmp-") && status.st_mtim.tv_sec + mostSeconds < ::time(nullptr)) {
      ::unlink(entries->path().c_str());
    } else if (rest.empty()) {
      auto bytes = static_cast<uint64_t>(status.st_size);
      files.push_back({entries->path(), bytes, {status.st_atim.tv_sec, status.st_atim.tv_nsec}});
      total += bytes;
    }
  }
  std::ranges::sort(files, [](const StoredIds &a, const StoredIds &b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  for (size_t i = 0; i < files.size() && total > mostBytes; ++i) {
    ::unlink(files[i].path.c_str());
    total -= files[i].bytes;
  }
}

std::shared_ptr<const TextEncoder> makeFileEncoder(const Tokenizer &tokenizer, int threads,
                                                   const Path &folder) {
  return std::make_shared<FileEncoder>(tokenizer, threads, folder);
}

} // namespace sluice::runtime
