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

#include "sluice/Spec/Diagnostic.h"

namespace sluice::spec {

enum class Positions : uint8_t { None, Learned, Sinusoidal };
enum class NormKind : uint8_t { Layer, Rms };
enum class Placement : uint8_t { Pre, Post };
enum class Activation : uint8_t { Relu, Gelu, GeluTanh, SwiGlu, ReluSquared };
enum class Shortening : uint8_t { Average, Linear, Max };
enum class Upsampling : uint8_t { Repeat, Linear };
/// How a trained tensor begins.
enum class InitialKind : uint8_t { Zeros, Ones, Normal, Identity };
/// Keys of attention that shortens: all up to the group, or those of the group.
enum class ShortenKeys : uint8_t { All, Group };
enum class MaskKind : uint8_t { Causal, Complete, Bidirectional, Window, Tokens, Block };
/// What attention's scores have by distance: nothing, a table, or Transformer-XL's terms, whose two
/// biases are the layer's own or those of all such layers.
enum class Relative : uint8_t { None, Bias, Xl, XlShared };
/// Where bits stand: at tokens (spaces, tabs and ends of lines), at every k-th position, or at a
/// token that is like a space behind one that is not (Slagle 2024), or where a file beside the text
/// has them, or where a loss's model is unsure of the next token (Pagnoni et al. 2024), or where a
/// row adds much to the coding rate of those before it (Deng et al. 2026).
enum class BoundaryRule : uint8_t { Whitespace, Every, SpaceLike, Labels, Entropy, CodingRate };
enum class Optimizer : uint8_t { AdamW, Adam };
enum class ScheduleKind : uint8_t { Cosine, Constant, InverseRoot };

/// How numbers are stored. Arithmetic is f32 whatever the storage.
enum class NumberType : uint8_t { F32, Bf16 };

/// How specs spell them, in the order of the enumeration.
inline constexpr std::array<std::string_view, 3> scheduleNames = {"cosine", "constant",
                                                                  "inverse_root"};
inline constexpr std::array<std::string_view, 4> initialNames = {"zeros", "ones", "normal",
                                                                 "identity"};
inline constexpr std::array<std::string_view, 3> shorteningNames = {"average", "linear", "max"};
inline constexpr std::array<std::string_view, 6> boundaryRuleNames = {
    "whitespace", "every", "space_like", "labels", "entropy", "coding_rate"};
inline constexpr std::array<std::string_view, 5> activationNames = {"relu", "gelu", "gelu_tanh",
                                                                    "swiglu", "relu_squared"};

/// Which positions q a query at position p reads, on scales of factors a of queries and b of keys.
/// Causal: b q <= a p. Complete: b (q + 1) <= a (p + 1). Window: m - end < q <= m - begin, m =
/// a p div b. Tokens: a (p + 1) - end < b (q + 1) <= a (p + 1) - begin. Block, on one scale: q <= p
/// in the block of p; blocks have `end` rows, and one of them starts at row `begin` < `end`.
struct Mask {
  MaskKind kind = MaskKind::Causal;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t stride = 1; ///< of a window on one scale: keys p - begin - stride j alone, j >= 0
};

/// A window in tokens, counted in the tokens common to scales of factors a and b: divided by their
/// greatest common divisor, rounded up, which leaves the same keys. It holds none where begin =
/// end.
Mask inCommonTokens(Mask mask, int64_t queryFactor, int64_t keyFactor);

// Settings of the stages. `layers`, `hourglass`, `top_down`, `bottom_up` and those that are
// Composed are composite, the others primitive.

struct Embedding {
  std::string input; ///< the named input that it reads; empty: the tokens
  Positions positions = Positions::None;
  double dropout = 0;
  std::vector<int64_t> ngrams; ///< sizes: each has a table, whose rows hashes of tokens choose
  int64_t ngramRows = 0;       ///< of each such table
  std::optional<int64_t> documentEnd; ///< a token that no n-gram behind it reads
};

/// An equal part of a layer's heads, with keys and values of its own.
struct HeadGroup {
  std::string over;      ///< name of their stream; empty where a composite stage chose it
  bool isPooled = false; ///< they are of means of `factor` rows of the layer's own input instead
  int64_t factor = 1;
  bool isMoving = false; ///< groups end at the query's own position, not at multiples of `factor`
  Mask mask;
  SourceLocation location; ///< of the mask
};

/// The rows of a moving group's keys, each the mean of the group that ends there, on a scale of
/// `factor`: a window of whole groups, of which every group.factor-th row is read.
Mask windowOfMoving(const HeadGroup &group, int64_t factor);

/// Attention by hashes: queries that are the keys, which read rows of their own bucket.
struct Hashing {
  int64_t buckets = 2; ///< of a hash, an even number
  int64_t chunk = 128; ///< rows of a bucket that are ranked together, a power of two
  int64_t hashes = 2;
  bool isCausal = true; ///< ranks count earlier rows; else, as published, all rows
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
  int64_t first = 0;                ///< keys before this row are left out, whatever the mask
  std::optional<double> rotaryBase; ///< absent: no rotation
  Relative relative = Relative::None;
  int64_t distances = 0;   ///< of Relative::Bias: rows of the table at most
  bool countsRows = false; ///< of Xl, XlShared: sinusoids are of distances in rows, not in tokens
  std::optional<Hashing> lsh; ///< absent: a mask alone says which keys are read
  bool bias = true;
  bool isOver = false;           ///< keys and values come from another stream than queries
  std::string over;              ///< its name; empty where an hourglass made the stage
  std::vector<HeadGroup> groups; ///< in the order of heads; empty: all heads read alike
  bool attentionNorm = true; ///< false: the attention block has no norms (pre-norm layers alone)

  bool isXl() const { return relative == Relative::Xl || relative == Relative::XlShared; }
  /// Queries are a sequence apart from keys and values.
  bool hasOwnQueries() const { return isOver || !groups.empty() || isXl(); }
  /// The other stream has a norm of its own.
  bool normsOver() const { return isOver && placement == Placement::Pre && attentionNorm; }
};

struct Norm {
  NormKind norm = NormKind::Layer;
  double epsilon = 1e-5;
};

struct Shift {
  int64_t by = 0;
  bool isLearned = false; ///< the first rows are a trained row, not zeros; then `by` >= 1
};

struct Shorten {
  int64_t factor = 1;
  Shortening method = Shortening::Average; ///< of segments: Average or Max
  std::optional<int64_t> window; ///< rows that a group reads, the last one its own; none: factor
  std::string segments = {};     ///< the segmentation whose segments it pools; empty: groups
  bool isSelection = false;      ///< of segments: rows at their bits, not their averages
  bool isFirst = false;          ///< of a selection: bits begin segments
  bool concatenates = false;     ///< rows of width / factor, each a linear map of one, side by side
  int64_t width = 0;             ///< of what is concatenated; 0: that of the stream

  int64_t rows() const { return window.value_or(factor); }
};

struct Upsample {
  int64_t factor = 1;
  Upsampling method = Upsampling::Repeat;
  std::optional<int64_t> window; ///< rows that a group reaches, whole groups; none: factor
  std::string segments = {};     ///< the segmentation that the stream is of; empty: groups
  int64_t by = 1;                ///< of segments: row t reads row c(t) - by; 1: the last closed one
  bool splits = false; ///< a linear map of the width / factor columns of its group that are its own
  bool scatters = false; ///< of segments: rows without a bit are zeros
  bool smooths = false;  ///< of a router's: moving averages, each row times a gate of one
  int64_t width = 0;     ///< of what splits; 0: that of the stream

  /// Groups that a row reads.
  int64_t groups() const { return window.value_or(factor) / factor; }
};

struct Add {
  std::string with; ///< name of the second stream; empty where an hourglass made the stage
};

/// Rows of `with` where a block starts, those of the input elsewhere: blocks as of a mask.
struct Replace {
  std::string with;
  int64_t block = 2;
  int64_t start = 0;
};

struct Dropout {
  double rate = 0;
};

/// Logits of a stream of factor f: row t reads group (t - shift) div f and is scored against token
/// t + 1.
struct Head {
  bool tied = false;
  bool bias = false;
  double labelSmoothing = 0;
  std::optional<int64_t> shift; ///< absent: f - 1, so that row g predicts tokens f (g + 1) and on
  std::optional<int64_t> first; ///< rows before it are not scored; absent: the shift
  std::string target = {};      ///< numbers that are its distributions; empty: the next token
  std::string weights = {};     ///< numbers that its rows are multiplied by; empty: none

  int64_t shiftOf(int64_t factor) const { return shift.value_or(factor - 1); }
  int64_t firstOf(int64_t factor) const { return first.value_or(shiftOf(factor)); }
};

/// What reports call the head's loss.
inline constexpr std::string_view mainLoss = "next";

/// What they call the share of tokens that end a segment, behind the segments' name.
inline constexpr std::string_view boundaryShare = ".share";

/// A loss beside the head's. Its result is no stream.
struct Loss {
  std::string name;  ///< unique; the head's is "next"
  double factor = 1; ///< what its mean counts in the sum that training minimizes
  Head head;
};

struct Layers {
  int64_t count = 1;
  Layer layer;
};

struct Hourglass {
  struct Level {
    int64_t layers = 0;
    int64_t factor = 1;   ///< relative to the stage's input
    bool isDrawn = false; ///< one of Hourglass::factors, the same for all such levels
  };
  std::vector<Level> hierarchy; ///< down to the coarsest and back up
  std::vector<int64_t> factors; ///< each step of training draws one; rising, empty: none is drawn
  Shortening shorten = Shortening::Average;
  std::optional<int64_t> shortenWindow; ///< of every shortening inside, as Shorten has it
  bool attendsDown = false;             ///< attention from what was pooled, over the stream
  ShortenKeys shortenKeys = ShortenKeys::All;
  Upsampling upsample = Upsampling::Repeat; ///< where `attendsUp`, Repeat adds nothing to queries
  bool attendsUp = false; ///< attention from the stream before shortening, over the coarse one
  std::optional<int64_t> shift; ///< absent: each level shifts by its relative factor - 1
  bool isLearned = false;       ///< as of Shift, wherever a level shifts by 1 or more
  bool shiftsOutput = false;    ///< what was upsampled is shifted, not what is shortened
  Layer layer;

  /// Index of the coarsest level: the middle one of factors that read the same from both ends, else
  /// the only one of the greatest factor.
  size_t coarsest() const;
};

/// act(W x + V z + b), z of the stream `with`: a linear map of the two side by side.
struct Project {
  std::string with; ///< empty: no z, or the stage is a composite's
  std::optional<Activation> activation;
  bool bias = true;
  int64_t width = 0; ///< of the result; 0: that of the stream
  InitialKind initial = InitialKind::Normal;
};

/// The top-down model of Subramanian et al. (2020): the scales of a pooled stream, the coarsest
/// first, each of which reads the one before it.
struct TopDown {
  std::vector<Hourglass::Level> hierarchy; ///< coarse to fine; the last has factor 1
  Shortening shorten = Shortening::Average;
  std::optional<int64_t> shortenWindow; ///< of every shortening inside, as Shorten has it
  Upsampling upsample = Upsampling::Repeat;
  std::optional<Activation> projection; ///< activation of what joins two scales
  std::optional<double> bags;           ///< factor of a loss on each coarse scale; absent: none
  bool isLearned = false; ///< a trained row stands where the scale above has no group yet
  Layer layer;
};

struct BottomUp {
  std::vector<Hourglass::Level> hierarchy; ///< rising factors, the first 1
  Shortening shorten = Shortening::Average;
  std::optional<int64_t> shortenWindow; ///< of every shortening inside, as Shorten has it
  bool repooled = false; ///< each scale groups the stage's input, not the finer scale's result
  Layer layer;
};

/// A target that moves over the updates of training, evenly or in equal jumps, to that which
/// evaluation has: at update n it is `from` + ((n - 1) / steps, at most 1) times the way.
struct MovingTarget {
  double from = 0;
  int64_t steps = 1;
  int64_t jumps = 0; ///< 0: evenly
};

/// A segmentation of the tokens: bits that end a segment, or begin one. Its result is no stream.
struct Boundaries {
  std::string name;                 ///< of the segmentation and of the axis of its segments
  std::optional<BoundaryRule> rule; ///< of the bits, or of the labels of what predicts them
  int64_t factor = 1;               ///< of BoundaryRule::Every: k
  int64_t capacity = 1;             ///< most segments in a row of a batch
  int64_t hidden = 0;               ///< hidden width of the predictor; 0: none
  double temperature = 0.5;         ///< of the Gumbel-sigmoid, where no rule gives labels
  double prior = 0;                 ///< share of bits that is expected there
  double weight = 1;                ///< what the predictor's or router's loss counts
  bool begins = false;              ///< a bit begins a segment, and the first row has one
  bool asInCode = false;            ///< as the paper's public code has it, where the two differ
  /// Token that ends a segment, whatever else says.
  std::optional<int64_t> documentEnd;
  double ratio =
      0; ///< rows of a segment that a router should make (Hwang et al. 2025); 0: no router
  std::optional<MovingTarget> moving; ///< what goes before `ratio` or `prior` in training
  /// Of BoundaryRule::Entropy: whose softmax is asked, `mainLoss` for the head's. Labels of a
  /// predictor may be of one that follows.
  std::string loss;
  double threshold = 0; ///< of its entropy, or a rate, in nats: bits stand above it
  bool isRise = false;  ///< the threshold is of what it rises from row to row
  int64_t spike = 0;    ///< of that entropy, without threshold: rows before that it is above; or 0
  double epsilon = 1;   ///< of BoundaryRule::CodingRate: the distortion of a column
  double top = 0;       ///< of that: not above a threshold, but this share of all rows
  int64_t window = 4;   ///< of that: rows before it that a row is compared with
  int64_t spare = 0;    ///< rows beyond its segments that some stage reads; set by the expansion

  /// Adds the logit of the first prior to predicted logits. The paper and its public code do not.
  bool addsPriorLogit = false;
  /// Computes the number added to predicted logits: log(a / (1 - a)) of the first prior a, or 0.
  double computeLogitShift() const;
};

/// Attention between a scale and its segments. From segments each row asks the rows of its own
/// segment, by a query a part; from the scale that is cut each row asks the parts of one segment's
/// row.
struct Attend {
  std::string over;     ///< the stream of keys and values
  std::string segments; ///< the segmentation between the two
  int64_t heads = 1;
  int64_t headSize = 0; ///< set by the expansion where it is 0: columns of the finer stream a head
  int64_t parts = 1;
  int64_t by = 1;    ///< from the scale that is cut: row t reads row c(t) - by, as an upsample does
  bool asks = false; ///< queries are of segments; set by the expansion
  Norm norm;
  bool bias = true;
};

struct Stage;

/// A composite stage that is a list of others. They read its input as the stream "input", and no
/// other stage sees their names.
struct Composed {
  std::vector<Stage> stages;
};

struct Dynamic : Composed {};          ///< dynamic token pooling (Nawrot et al. 2023)
struct Megabyte : Composed {};         ///< Yu et al. 2023
struct BlockTransformer : Composed {}; ///< Ho et al. 2024
struct SpaceByte : Composed {};        ///< Slagle 2024
struct Hnet : Composed {};             ///< Hwang et al. 2025
struct Blt : Composed {};              ///< Pagnoni et al. 2024

using Settings =
    std::variant<Embedding, Layer, Norm, Shift, Shorten, Upsample, Add, Dropout, Head, Loss, Layers,
                 Hourglass, Project, TopDown, BottomUp, Boundaries, Replace, Attend, Dynamic,
                 Megabyte, BlockTransformer, SpaceByte, Hnet, Blt>;

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
  Hourglass,
  Project,
  TopDown,
  BottomUp,
  Boundaries,
  Replace,
  Attend,
  Dynamic,
  Megabyte,
  BlockTransformer,
  SpaceByte,
  Hnet,
  Blt
};

/// The op as a spec spells it ("shorten").
std::string_view name(Op op);

/// The stages that it is made of; null where it is no such composite.
Composed *composedOf(Settings &settings);
const Composed *composedOf(const Settings &settings);

/// Where the values of a stage's keys stand, those inherited from `defaults` included.
using KeyLocations = std::map<std::string, SourceLocation, std::less<>>;

/// A stage as it was written.
struct Stage {
  Settings settings;
  SourceLocation location; ///< the stage's opening brace
  KeyLocations keys;
  std::string prefix;    ///< of the names of its weights: "stages.1"
  std::string from;      ///< empty: the result of the stage before
  std::string to;        ///< empty: unnamed
  bool isFrozen = false; ///< its weights are given, and training leaves them as they are

  Op op() const { return static_cast<Op>(settings.index()); }
  /// Where the value of `key` stands, or the stage itself where the key was not given.
  const SourceLocation &at(std::string_view key) const;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::Cosine;
  int64_t warmup = 100;
  int64_t steps = 1000;
  double floor = 0.1; ///< a fraction of the learning rate
  /// A second phase, from `steps` on: one cosine from the rate there.
  struct Fall {
    int64_t steps = 0;
    double floor = 0; ///< a fraction of the learning rate, at most that where the phase begins
  };
  std::optional<Fall> then;

  /// The rate at step `steps`, as a fraction of the learning rate.
  double last() const;
};

struct Training {
  Optimizer optimizer = Optimizer::AdamW;
  bool cyclic = false;    ///< each epoch shifts every text around its end; else it is cut elsewhere
  int32_t accumulate = 1; ///< batches of an update
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

/// A named input of rows beside the tokens, f32: what data say of each. It may follow from what
/// comes behind, so losses alone may read it.
struct Numbers {
  enum class Role : uint8_t { Target, Weight, Input };
  std::string name;
  SourceLocation location;
  Role role = Role::Target;
  int64_t width = 1; ///< of a target: as many as there are tokens to predict
};
/// How specs spell roles, in the order of the enumeration.
inline constexpr std::array<std::string_view, 3> inputRoleNames = {"target", "weight", "input"};

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
  std::vector<Input> inputs;    ///< by name
  std::vector<Numbers> numbers; ///< by name
  std::vector<Stage> stages;

  /// The factors of which each step of training draws one (shorten-factor dropout), rising; empty
  /// where every level has one. `stages` are those of the least.
  std::vector<int64_t> factors() const;
  /// The model with `factor` of them.
  Model withFactor(int64_t factor) const;
  /// The models of all factors, or this one alone.
  std::vector<Model> variants() const;

  /// The input of this name; null where it is empty, that is, for the tokens.
  const Input *findInput(std::string_view name) const;
  /// The numbers of this name; null where there are none.
  const Numbers *findNumbers(std::string_view name) const;
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
