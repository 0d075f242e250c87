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

  /// Uses `folder`, which is created at the first store. With an empty name, nothing is cached.
  explicit KernelCache(std::string folder = "", uint64_t mostBytes = defaultBytes);
  KernelCache(const KernelCache &) = delete;
  KernelCache &operator=(const KernelCache &) = delete;

  /// Returns the bytes stored for `key` and marks the entry as used now. Removes an entry whose
  /// length, key or checksum is wrong.
  std::optional<std::string> load(const KernelKey &key);

  /// Stores `bytes` for `key`: writes a temporary file and renames it, so that no process sees a
  /// partial entry. After the first failure nothing more is stored.
  void store(const KernelKey &key, llvm::StringRef bytes);

  /// Stores `parts` as one entry, and loads them. An entry with a different number of parts is
  /// absent.
  void storeParts(const KernelKey &key, llvm::ArrayRef<llvm::StringRef> parts);
  std::optional<std::vector<std::string>> loadParts(const KernelKey &key, size_t count);

  /// Called after a compile. If anything was stored, removes the least recently used entries until
  /// the rest is within the limit, and temporary files older than an hour.
  void trim();

  int64_t getHits() const { return hits; }
  int64_t getMisses() const { return misses; }
  /// Returns the reason why entries were not stored; empty if all were.
  std::string getProblem();

private:
  std::string getPath(const KernelKey &key) const;
  /// Writes a whole file of this name; returns an errno, 0 on success.
  int writeFile(const std::string &path, llvm::StringRef header, llvm::StringRef bytes);

  const std::string folder;
  const uint64_t mostBytes;
  std::atomic<int64_t> hits = 0, misses = 0, stored = 0, temporaries = 0;
  std::atomic<bool> isFailed = false;
  std::mutex mutex; ///< protects `problem`
  std::string problem;
};

/// Cache settings of a command.
struct KernelCacheSetting {
  std::string folder; ///< empty: no cache
  uint64_t mostBytes = KernelCache::defaultBytes;
  bool isNamed = false; ///< named by the user, who gets a message if it cannot be used
};

/// Returns the setting for the value of --kernel-cache: a folder, "off", or empty, which selects
/// SLUICE_KERNEL_CACHE and else $XDG_CACHE_HOME/sluice/kernels or ~/.cache/sluice/kernels. The
/// limit is SLUICE_KERNEL_CACHE_SIZE. Fails with a message if that is not a size.
llvm::Expected<KernelCacheSetting> findKernelCache(const std::string &value);

} // namespace sluice
