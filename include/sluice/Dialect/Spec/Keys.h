// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The keys of specs, as the spec dialect declares them: for the reader and for editors. Plain C++.
#ifndef SLUICE_DIALECT_SPEC_KEYS_H
#define SLUICE_DIALECT_SPEC_KEYS_H

#include "sluice/Support/Limits.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::spec {

/// How a value is read.
enum class KeyKind : uint8_t {
  Integer,
  Number,
  Boolean,
  Word,     ///< one of `words`
  Text,     ///< a string that is not empty
  Stream,   ///< the name of a stream, an operand
  Segments, ///< the name of segments, an operand
  Special   ///< by a function of its own
};

/// Most levels of an hnet stage, each inside the one before.
constexpr int mostNestedLevels = 16;

/// Bounds of an integer, both inclusive.
struct Range {
  int64_t least = 1;
  int64_t largest = mostSize;
};

/// Bounds of a number, each inclusive or not.
struct Interval {
  double least = 0;
  double largest = std::numeric_limits<double>::infinity();
  bool withLeast = true;
  bool withLargest = true;

  bool contains(double x) const;
  /// True where the interval contains `x` as kernels hold it, which is 0 only where `x` is.
  bool containsInF32(double x) const;
  /// "a number >= 0 and < 1"
  std::string describe() const;
};

/// Returns `x` as kernels hold it.
double roundToF32(double x);

/// One key of an object.
struct KeyInfo {
  std::string_view name;
  std::string_view attribute; ///< of the op; empty for an operand, or a value that becomes ops
  KeyKind kind = KeyKind::Special;
  std::string_view type;
  std::string_view meaning;
  std::string_view otherwise; ///< what holds where the key is absent; "required" where nothing does
  std::string_view hint;      ///< ends the message where a required key is absent; may be empty
  bool isRequired = false;
  std::string_view
      requiredUnless; ///< the key is required where this one is absent too; empty: never
  Range range;
  Interval interval;
  std::vector<std::string_view> words; ///< that may be written as a string
  std::vector<std::string_view>
      wordsWithSegments;        ///< those where the key "segments" is given; empty: `words`
  std::string_view enumeration; ///< C++ name of the enumeration of a Word
  std::string_view section;     ///< name of the object that the value may be; empty: none
};

/// An object of a spec: a stage, an object that is an op of its own, or one that is the value of a
/// key.
struct ObjectInfo {
  std::string_view definition; ///< "Spec_LayerOp", "MaskSection"
  std::string_view word;       ///< "layer": the op's name without its dialect; empty for a section
  std::string_view what;       ///< in messages: "a layer stage"
  std::string_view sentence;   ///< the computation of a stage
  bool isStage = false;
  bool inherits = false;     ///< keys of `defaults` hold where it has none
  bool hasLayerKeys = false; ///< it has the settings of layers
  std::vector<KeyInfo> keys;

  /// The key of this name, or null.
  const KeyInfo *find(std::string_view name) const;
};

/// All objects, in the order of their declarations: stages first.
const std::vector<ObjectInfo> &getObjects();
/// The object of this definition, "MaskSection" for example. It must exist.
const ObjectInfo &getObject(std::string_view definition);
/// The stage of this word, "layer" for example, or null.
const ObjectInfo *findStage(std::string_view word);

} // namespace sluice::spec

#endif // SLUICE_DIALECT_SPEC_KEYS_H
