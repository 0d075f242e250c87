// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled kernels that later compiles reuse: one file per kernel in a folder that any number of
// processes share (docs/kernel-cache.md).
#pragma once

#include "sluice/Target/Cache/KernelKey.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// A cache of compiled kernels. Threads may share one. No operation throws or fails: an entry that
/// cannot be read is absent, and one that cannot be written is not stored.
class KernelCache {
public:
  static constexpr uint64_t defaultBytes = uint64_t(256) << 20;

  /// Uses `folder`, which is created at the first store. An empty name is a cache that stores
  /// nothing.
  explicit KernelCache(std::string folder = "", uint64_t mostBytes = defaultBytes);
  KernelCache(const KernelCache &) = delete;
  KernelCache &operator=(const KernelCache &) = delete;

  /// Returns what was stored for `key` and marks it as used now. An entry whose length, key or
  /// checksum is wrong is removed.
  std::optional<std::string> load(const KernelKey &key);

  /// Stores `bytes` for `key`: a temporary file, then a rename, so that no process sees a part of
  /// an entry. The first failure ends all storing.
  void store(const KernelKey &key, llvm::StringRef bytes);

  /// Stores `parts` as one entry, and loads them. An entry of another number of parts is absent.
  void storeParts(const KernelKey &key, llvm::ArrayRef<llvm::StringRef> parts);
  std::optional<std::vector<std::string>> loadParts(const KernelKey &key, size_t count);

  /// After a compile: where anything was stored, removes the entries that were used least recently
  /// until the rest takes at most the limit, and temporary files older than an hour.
  void trim();

  int64_t getHits() const { return hits; }
  int64_t getMisses() const { return misses; }
  /// Returns why entries were not stored; empty where all were.
  std::string getProblem();

private:
  std::string getPath(const KernelKey &key) const;
  /// Writes a whole file of the name; returns an errno, 0 on success.
  int writeFile(const std::string &path, llvm::StringRef header, llvm::StringRef bytes);

  const std::string folder;
  const uint64_t mostBytes;
  std::atomic<int64_t> hits = 0, misses = 0, stored = 0, temporaries = 0;
  std::atomic<bool> isFailed = false;
  std::mutex mutex; ///< of `problem`
  std::string problem;
};

/// Which cache a command uses.
struct KernelCacheSetting {
  std::string folder; ///< empty: none
  uint64_t mostBytes = KernelCache::defaultBytes;
  bool isNamed = false; ///< by the user, who is told where it cannot be used
};

/// Returns the setting for the value of --kernel-cache: a folder, "off", or empty, which takes
/// SLUICE_KERNEL_CACHE and else $XDG_CACHE_HOME/sluice/kernels or ~/.cache/sluice/kernels. The
/// limit is SLUICE_KERNEL_CACHE_SIZE. Fails with a message where that is no size.
llvm::Expected<KernelCacheSetting> findKernelCache(const std::string &value);

} // namespace sluice
