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

/// Parser of a value.
enum class KeyKind : uint8_t {
  Integer,
  Number,
  Boolean,
  Word,     ///< one of `words`
  Text,     ///< a string that is not empty
  Stream,   ///< the name of a stream, which is an operand
  Segments, ///< the name of segments, which is an operand
  Special   ///< parsed by a function of its own
};

/// Maximum nesting depth of hnet stages.
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
  /// Returns true if the interval contains `x` rounded to f32, as kernels use it. False if a
  /// nonzero `x` rounds to 0 or to infinity.
  bool containsInF32(double x) const;
  /// "a number >= 0 and < 1"
  std::string describe() const;
};

/// Returns `x` rounded to f32, as kernels use it.
double roundToF32(double x);

/// One key of an object.
struct KeyInfo {
  std::string_view name;
  std::string_view attribute; ///< of the op; empty for an operand, or for a value that becomes ops
  KeyKind kind = KeyKind::Special;
  std::string_view type;
  std::string_view meaning;
  std::string_view otherwise; ///< value if the key is absent; "required" if there is none
  std::string_view hint;      ///< ends the message for a required key that is absent; may be empty
  bool isRequired = false;
  std::string_view requiredUnless; ///< the key is required if this one is absent too; empty: never
  Range range;
  Interval interval;
  std::vector<std::string_view> words; ///< strings that a spec may write
  std::vector<std::string_view>
      wordsWithSegments;        ///< words if the key "segments" is present; empty: `words`
  std::string_view enumeration; ///< C++ name of the enumeration of a Word
  std::string_view section;     ///< section of the object form of the value; empty: none
};

/// An object of a spec: a stage, an object with its own op, or an object that is the value of a
/// key.
struct ObjectInfo {
  std::string_view definition; ///< "Spec_LayerOp", "MaskSection"
  std::string_view word;       ///< "layer": the op's name without its dialect; empty for a section
  std::string_view what;       ///< in messages: "a layer stage"
  std::string_view sentence;   ///< summary of a stage
  bool isStage = false;
  bool inherits = false;     ///< keys that it does not set come from `defaults`
  bool hasLayerKeys = false; ///< has the settings of layers
  std::vector<KeyInfo> keys;

  /// Returns the key of this name, or null.
  const KeyInfo *find(std::string_view name) const;
};

/// Returns all objects, in the order of their declarations: stages first.
const std::vector<ObjectInfo> &getObjects();
/// Returns the object of this definition, "MaskSection" for example. It must exist.
const ObjectInfo &getObject(std::string_view definition);
/// Returns the stage of this word, "layer" for example, or null.
const ObjectInfo *findStage(std::string_view word);

} // namespace sluice::spec

#endif // SLUICE_DIALECT_SPEC_KEYS_H
