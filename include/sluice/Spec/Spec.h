// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model spec as a validated tree: what docs/spec.md describes, with every default filled in and
// the place in the user's file of everything a later diagnostic may want to point at.
//
// A reader function returns a model or one diagnostic, so code compiled without run-time type
// information may use it. An I/O error or the lack of file handles is thrown (runtime::JobError). A
// Model made by these functions is valid in all respects that docs/spec.md states, except
// causality, which is proved elsewhere.

#ifndef SLUICE_SPEC_SPEC_H
#define SLUICE_SPEC_SPEC_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice::spec {

/// A place in a spec. Lines and columns count from 1, columns in bytes; line 0 means the whole
/// file.
struct SourceLocation {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;
};

/// "file:line:column", or "file" for a whole file.
std::string toString(const SourceLocation &location);

/// One error of the user's: one line, with what was expected, what was found and a remedy.
struct Diagnostic {
  SourceLocation location; ///< without a file: the message names it
  std::string message;

  /// "file:line:column: message", as it is shown.
  std::string format() const;
};

enum class Positions : uint8_t { None, Learned, Sinusoidal };
enum class NormKind : uint8_t { Layer, Rms };
enum class Placement : uint8_t { Pre, Post };
enum class Activation : uint8_t { Relu, Gelu, GeluTanh, SwiGlu, ReluSquared };
enum class Shortening : uint8_t { Average, Linear, Max };
enum class Upsampling : uint8_t { Repeat, Linear };
/// Keys of attention that shortens: all up to the group, or those of the group.
enum class ShortenKeys : uint8_t { All, Group };
enum class MaskKind : uint8_t { Causal, Complete, Bidirectional, Window };
/// What attention's scores have by distance: nothing, a table, or Transformer-XL's terms, whose two
/// biases are the layer's own or those of all such layers.
enum class Relative : uint8_t { None, Bias, Xl, XlShared };
enum class Optimizer : uint8_t { AdamW, Adam };
enum class ScheduleKind : uint8_t { Cosine, Constant };

/// How numbers are stored. Arithmetic is f32 whatever the storage.
enum class NumberType : uint8_t { F32, Bf16 };

/// How specs spell them, in the order of the enumeration.
inline constexpr std::array<std::string_view, 3> shorteningNames = {"average", "linear", "max"};
inline constexpr std::array<std::string_view, 5> activationNames = {"relu", "gelu", "gelu_tanh",
                                                                    "swiglu", "relu_squared"};

/// Which positions q a query at position p reads, on scales of factors a of queries and b of keys.
/// Causal: b q <= a p. Complete: b (q + 1) <= a (p + 1). Window: m - end < q <= m - begin, m =
/// a p div b.
struct Mask {
  MaskKind kind = MaskKind::Causal;
  int64_t begin = 0;
  int64_t end = 0;
};

// Settings of the stages. The primitive ones come first; `layers` and `hourglass` are composite.

struct Embedding {
  std::string input; ///< the named input that it reads; empty: the tokens
  Positions positions = Positions::None;
  double dropout = 0;
};

struct Layer {
  int64_t heads = 0;
  int64_t keyValueHeads = 0; ///< divides heads
  int64_t headSize = 0;      ///< heads * headSize need not be the width
  NormKind norm = NormKind::Layer;
  Placement placement = Placement::Pre;
  double epsilon = 1e-5;
  Activation activation = Activation::Gelu;
  int64_t feedForward = 0; ///< hidden width
  double dropout = 0;
  double attentionDropout = 0;
  Mask mask;
  std::optional<double> rotaryBase; ///< absent: no rotation
  Relative relative = Relative::None;
  int64_t distances = 0; ///< of Relative::Bias: rows of the table at most
  bool bias = true;
  bool isOver = false;       ///< keys and values come from another stream than queries
  std::string over;          ///< its name; empty where an hourglass made the stage
  bool attentionNorm = true; ///< false: the attention block has no norms (pre-norm layers alone)

  bool isXl() const { return relative == Relative::Xl || relative == Relative::XlShared; }
  /// Queries are a sequence apart from keys and values.
  bool hasOwnQueries() const { return isOver || isXl(); }
  /// The other stream has a norm of its own.
  bool normsOver() const { return isOver && placement == Placement::Pre && attentionNorm; }
};

struct Norm {
  NormKind norm = NormKind::Layer;
  double epsilon = 1e-5;
};

struct Shift {
  int64_t by = 0;
};

struct Shorten {
  int64_t factor = 1;
  Shortening method = Shortening::Average;
};

struct Upsample {
  int64_t factor = 1;
  Upsampling method = Upsampling::Repeat;
};

struct Add {
  std::string with; ///< name of the second stream; empty where an hourglass made the stage
};

struct Dropout {
  double rate = 0;
};

struct Head {
  bool tied = false;
  bool bias = false;
  double labelSmoothing = 0;
};

/// What reports call the head's loss.
inline constexpr std::string_view mainLoss = "next";

/// A loss beside the head's, of a stream of factor f: row t is scored against token t + 1 and reads
/// group (t - shift) div f. Its result is no stream.
struct Loss {
  std::string name;             ///< unique; the head's is "next"
  double factor = 1;            ///< what its mean counts in the sum that training minimizes
  std::optional<int64_t> shift; ///< absent: f - 1, so that row g predicts tokens f (g + 1) and on
  Head head;
};

struct Layers {
  int64_t count = 1;
  Layer layer;
};

struct Hourglass {
  struct Level {
    int64_t layers = 0;
    int64_t factor = 1; ///< relative to the stage's input
  };
  std::vector<Level> hierarchy; ///< down to the coarsest and back up
  Shortening shorten = Shortening::Average;
  bool attendsDown = false; ///< attention from what was pooled, over the stream
  ShortenKeys shortenKeys = ShortenKeys::All;
  Upsampling upsample = Upsampling::Repeat; ///< where `attendsUp`, Repeat adds nothing to queries
  bool attendsUp = false; ///< attention from the stream before shortening, over the coarse one
  std::optional<int64_t> shift; ///< absent: each level shifts by its relative factor - 1
  Layer layer;

  /// Index of the coarsest level: the middle one of factors that read the same from both ends, else
  /// the only one of the greatest factor.
  size_t coarsest() const;
};

using Settings = std::variant<Embedding, Layer, Norm, Shift, Shorten, Upsample, Add, Dropout, Head,
                              Loss, Layers, Hourglass>;

/// The alternatives of Settings, in their order.
enum class Op : uint8_t {
  Embedding,
  Layer,
  Norm,
  Shift,
  Shorten,
  Upsample,
  Add,
  Dropout,
  Head,
  Loss,
  Layers,
  Hourglass
};

/// The op as a spec spells it ("shorten").
std::string_view name(Op op);

/// Where the values of a stage's keys stand, those inherited from `defaults` included.
using KeyLocations = std::map<std::string, SourceLocation, std::less<>>;

/// A stage as it was written.
struct Stage {
  Settings settings;
  SourceLocation location; ///< the stage's opening brace
  KeyLocations keys;
  std::string prefix; ///< of the names of its weights: "stages.1"
  std::string from;   ///< empty: the result of the stage before
  std::string to;     ///< empty: unnamed

  Op op() const { return static_cast<Op>(settings.index()); }
  /// Where the value of `key` stands, or the stage itself where the key was not given.
  const SourceLocation &at(std::string_view key) const;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::Cosine;
  int64_t warmup = 100;
  int64_t steps = 1000;
  double floor = 0.1; ///< a fraction of the learning rate
};

struct Training {
  Optimizer optimizer = Optimizer::AdamW;
  double learningRate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weightDecay = 0.1;
  double clip = 1; ///< global norm; 0: no clipping
  Schedule schedule;
};

/// Storage of what is not a weight. Weights, moments, gradients of weights, statistics and losses
/// are f32; with a compute type of bf16, linear maps read weights rounded to it.
struct Precision {
  NumberType compute = NumberType::F32;  ///< factors of linear maps and attention
  NumberType residual = NumberType::F32; ///< streams between stages; bf16 only where compute is
};

/// A named input: tokens on an axis of its own, all given before the model's first token.
struct Input {
  std::string name;
  SourceLocation location;
  int64_t context = 0; ///< most tokens in a row of a batch
  int64_t vocabulary = 0;
};

struct Model {
  std::string name;
  std::string text; ///< the spec itself, as it was read
  SourceLocation location;
  KeyLocations keys; ///< of the top level
  int64_t vocabulary = 0;
  int64_t context = 0; ///< N: most tokens in a row of a batch
  int64_t batch = 0;   ///< B: most rows in a batch
  int64_t width = 0;   ///< d
  int64_t seed = 0;
  Precision precision;
  Training training;
  std::vector<Input> inputs; ///< by name
  std::vector<Stage> stages;

  /// The input of this name; null where it is empty, that is, for the tokens.
  const Input *findInput(std::string_view name) const;
  /// Most tokens in a row of the axis of an input, or of the tokens.
  int64_t contextOf(std::string_view input) const;
};

/// Reads and validates the spec at `path`; `path` as given is the file of every location.
/// Returns nothing and sets `error` where the file cannot be read or is not a valid spec.
std::optional<Model> readFile(const std::string &path, Diagnostic &error);

/// The same for a spec that is in memory; `file` names it in locations, its stem the model by
/// default.
std::optional<Model> readText(std::string text, const std::string &file, Diagnostic &error);

} // namespace sluice::spec

#endif // SLUICE_SPEC_SPEC_H
