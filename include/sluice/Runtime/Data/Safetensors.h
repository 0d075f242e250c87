// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors in safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes.
#pragma once

#include "sluice/Support/Hash.h"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sluice {
class OutputFile;
}

namespace sluice::runtime {

/// An f32 tensor in memory, with its name in a file.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> data; // dense, row-major
};

/// Mapping from the tensor names of another program's file to the model's names.
struct WeightNames {
  std::string prefix;              ///< removed from names that start with it
  std::vector<std::string> ignore; ///< globs of tensors to skip
};

/// Remedies in messages about a safetensors file, from "; " on.
struct SafetensorsRemedies {
  std::string foreign = "; give the safetensors file that belongs to this artifact";
  /// For a file that does not match its checksums.
  std::string damaged = "; give another copy of it, or weights of another checkpoint";
};

/// Reads the tensors of a safetensors file. The bytes must outlive the object.
class SafetensorsFile {
public:
  struct StoredTensor {
    std::string type; ///< F32, F16, BF16, or another type that `check` rejects
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0; ///< byte offsets after the header
  };

  /// Throws UserError unless the header is well-formed, the tensors cover the data without gaps or
  /// overlaps, each is aligned and has the size of its shape, and the checksum, if present,
  /// matches. `origin` (a path) starts each message.
  SafetensorsFile(std::span<const uint8_t> file, std::string origin,
                  SafetensorsRemedies remedies = {});

  const std::map<std::string, StoredTensor> &tensors() const { return table; }
  /// Checks for the checksums that `encodeSafetensors` writes.
  bool hasChecksum() const { return checksummed; }
  /// Returns a string of the file's metadata, which no checksum covers; empty if absent.
  std::string metadata(const std::string &key) const;

  /// Removes the prefix, then skips tensors. Throws UserError if the prefix or a glob matches no
  /// tensor, or if removing the prefix yields a name that exists already.
  void rename(const WeightNames &names);

  /// Returns the names of tensors that are not in `into`. A tensor that duplicates one of `into`,
  /// such as a copy of a tied table, is not returned; `copies` receives a line for people about it.
  std::vector<std::string> findOthers(std::span<const NamedTensor> into,
                                      std::vector<std::string> &copies) const;

  /// Throws UserError if names of `into` are missing and the file has all of them with a common
  /// prefix, such as "_orig_mod." of torch.compile.
  void requireNoPrefix(std::span<const NamedTensor> into) const;

  /// Throws UserError unless the file has this tensor with this shape, of type F32, F16 or BF16,
  /// and all of its numbers are finite.
  void check(const NamedTensor &tensor) const;
  /// Copies a tensor that passed `check`. F16 and BF16 convert exactly to f32.
  void copy(const NamedTensor &into) const;
  /// Returns the numbers of a tensor of the file as f32. F32, F16 and BF16 convert exactly, F64 to
  /// the nearest f32, ties to even. Throws UserError for another type, and unless all numbers are
  /// finite in f32; `name` is the tensor's name in the file.
  std::vector<float> convert(const std::string &name) const;
  /// Returns the bytes of a tensor of the file.
  std::span<const uint8_t> getBytes(const std::string &name) const;

private:
  float element(const StoredTensor &stored, size_t index) const;
  void requireContext(const NamedTensor &tensor, const StoredTensor &stored) const;

  std::string origin;
  SafetensorsRemedies remedies;
  std::span<const uint8_t> data;
  std::map<std::string, StoredTensor> table;
  std::map<std::string, std::string> texts; ///< strings of the metadata
  bool checksummed = false;
};

/// Returns a string of the metadata of a safetensors file, whose tensors are not read; empty if the
/// file or the string is absent, or if the header is damaged.
std::string readMetadata(const Path &path, const std::string &key);

/// Key of the metadata for the hash of the tokenizer that encoded the training data.
inline constexpr const char *tokenizerKey = "sluice.tokenizer";

/// Returns the bytes of a file with the tensors in the given order. Its metadata has two checksums,
/// SHA-256 in hexadecimal: sluice.data_sha256 of the bytes after the header, and
/// sluice.tensors_sha256 of the header's other members as compact JSON with sorted keys. `metadata`
/// is added to them.
std::vector<uint8_t> encodeSafetensors(std::span<const NamedTensor> tensors,
                                       const std::map<std::string, std::string> &metadata = {});

/// Writes such a file without a copy of the tensors, and syncs it. Returns its size and its hash.
HashedFile writeSafetensors(const Path &path, std::span<const NamedTensor> tensors,
                            const std::map<std::string, std::string> &metadata = {});

/// Writes the same bytes to a file that the caller finishes. Returns their number and their hash.
HashedFile writeSafetensors(OutputFile &file, std::span<const NamedTensor> tensors,
                            const std::map<std::string, std::string> &metadata = {});

/// Copies the file's tensors into `into`. After `names` is applied, the file must have exactly
/// these tensors; only copies of them are allowed in addition, and `notice` receives a line about
/// each. Throws UserError as SafetensorsFile does, before copying anything. Returns whether the
/// file had checksums. `release` receives the bytes of each tensor after they were copied.
bool decodeSafetensors(std::span<const uint8_t> file, const std::string &origin,
                       std::span<const NamedTensor> into, const WeightNames &names = {},
                       const std::function<void(const std::string &)> &notice = {},
                       const std::function<void(std::span<const uint8_t>)> &release = {});

} // namespace sluice::runtime
