// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Composite stages become primitive ones; names of streams become numbers; every stream gets its
// scale.

#include "sluice/Spec/Expansion.h"

#include "BottomUp.h"
#include "Hourglass.h"
#include "Stages.h"

namespace sluice::spec {
namespace {

constexpr size_t mostPrimitives = size_t(1) << 16;

class Expander {
public:
  explicit Expander(const Model &model) : model(model) {}

  std::vector<Primitive> run() {
    expandAll(model.stages);
    checkEntropies();
    return std::move(result);
  }

private:
  struct Stream {
    int64_t id = 0;
    SourceLocation location; ///< of the `to` that named it
  };

  [[noreturn]] static void fail(const SourceLocation &location, std::string message) {
    throw Failure{{location, std::move(message)}};
  }

  void expandAll(const std::vector<Stage> &stages) {
    for (const Stage &stage : stages) {
      int64_t made = expandStage(stage);
      if (stage.op() == Op::Loss || stage.op() == Op::Boundaries) { // whose result nothing reads
        continue;
      }
      previous = made;
      define(stage);
    }
  }
  int64_t expandComposed(const Composed &composed, const Stage &stage, int64_t input);
  int64_t stream(const std::string &name, const SourceLocation &location) const;
  void define(const Stage &stage);
  void defineLoss(const Loss &loss, const SourceLocation &location);
  int64_t factorAfter(const Settings &settings, int64_t input, const SourceLocation &where) const;
  void checkAdd(const Stage &stage, int64_t input, int64_t second) const;
  void checkWidth(const Stage &stage, int64_t input, int64_t second) const;
  int64_t widthOf(int64_t id) const {
    return id < 0 ? model.width : result[static_cast<size_t>(id)].width;
  }
  void checkIdentity(const Stage &stage, int64_t read, int64_t width) const;
  void checkScored(const Stage &stage, const Head &head, int64_t input) const;
  void checkGiven(const Stage &stage, int64_t input) const;
  void checkSegments(const Stage &stage, int64_t input);
  int64_t mostBits(int64_t input) const;
  int64_t tokensBelow(int64_t id) const;
  void checkPlace(int64_t keys, const SourceLocation &where) const;
  const Primitive *lossOf(const Boundaries &made) const;
  void checkEntropies() const;
  void defineSegments(const Boundaries &boundaries, const SourceLocation &location);
  std::string segmentsAfter(const Settings &settings, int64_t input) const;
  Layer settleOver(const Stage &stage, Layer layer, int64_t input, int64_t second) const;
  const Primitive *cutOf(const Settings &settings) const;
  const Primitive *cutOf(const std::string &segments) const;
  int64_t expandAttend(const Stage &stage, int64_t input);
  const std::string &axisOf(int64_t id) const { return result[static_cast<size_t>(id)].axis; }
  const std::string &segmentsOf(int64_t id) const {
    return result[static_cast<size_t>(id)].segments;
  }
  std::string describe(int64_t id) const;

  int64_t emit(const Stage &stage, Settings settings, std::string prefix,
               const SourceLocation &location, int64_t input, int64_t second = -1,
               std::vector<int64_t> sources = {});
  std::vector<int64_t> findSources(const Layer &layer, int64_t input) const;
  /// Appends stages of a composite one.
  AppendStage appenderOf(const Stage &stage) {
    return [this, &stage](Settings settings, std::string prefix, const SourceLocation &location,
                          int64_t x, int64_t second) {
      return emit(stage, std::move(settings), std::move(prefix), location, x, second);
    };
  }
  int64_t expandStage(const Stage &stage);
  int64_t expandTopDown(const Stage &stage, int64_t input);

  const Model &model;
  std::vector<Primitive> result;
  std::vector<int64_t> firstTokens; ///< by id: tokens before the first row that may be scored
  std::map<std::string, Stream, std::less<>> streams;
  std::map<std::string, SourceLocation, std::less<>> losses;
  std::map<std::string, Stream, std::less<>> segmentations; ///< by name: the stage that makes bits
  std::vector<std::pair<const Stage *, int64_t>> cutStages; ///< that make bits, and their ids
  int64_t previous = -1;
};

int64_t Expander::stream(const std::string &name, const SourceLocation &location) const {
  auto found = streams.find(name);
  if (found != streams.end()) {
    return found->second.id;
  }
  std::vector<std::string_view> known;
  known.reserve(streams.size());
  for (const auto &entry : streams) {
    known.push_back(entry.first);
  }
  fail(location, "expected the name of an earlier stage's result, found " + quote(name) + "; " +
                     (known.empty() ? "no stage before this one has a \"to\""
                                    : suggestion(name, known, "names")));
}

void Expander::define(const Stage &stage) {
  if (stage.to.empty()) {
    return;
  }
  const SourceLocation &location = stage.at("to");
  auto [at, added] = streams.try_emplace(stage.to, Stream{previous, location});
  if (!added) {
    fail(location, "expected a name that no earlier result has, found " + quote(stage.to) +
                       ", which " + toString(at->second.location) + " defines; choose another");
  }
}

void Expander::defineLoss(const Loss &loss, const SourceLocation &location) {
  auto [at, added] = losses.try_emplace(loss.name, location);
  if (!added) {
    fail(location, "expected a name that no earlier loss has, found " + quote(loss.name) +
                       ", which " + toString(at->second) + " defines; choose another");
  }
}

int64_t Expander::factorAfter(const Settings &settings, int64_t input,
                              const SourceLocation &where) const {
  int64_t before = input < 0 ? 1 : result[static_cast<size_t>(input)].factor;
  if (const Primitive *cut = cutOf(settings)) { // segments are counted one by one
    return std::holds_alternative<Shorten>(settings) ? 1 : cut->factor;
  }
  if (const auto *shorten = std::get_if<Shorten>(&settings)) {
    if (before * shorten->factor > largestSize) {
      fail(where, "expected scales of at most " + std::to_string(largestSize) +
                      " tokens a position, found " + std::to_string(before) + " * " +
                      std::to_string(shorten->factor) + "; shorten by less");
    }
    return before * shorten->factor;
  }
  if (const auto *upsample = std::get_if<Upsample>(&settings)) {
    if (before % upsample->factor != 0) {
      fail(where, "expected to upsample by a divisor of the scale's factor, found factor " +
                      std::to_string(upsample->factor) + " for " + describe(input) +
                      "; undo only what a shorten stage did");
    }
    return before / upsample->factor;
  }
  return before;
}

/// "the result of the shorten stage at a.json:7:5, on scale 4"
std::string Expander::describe(int64_t id) const {
  const Primitive &p = result[static_cast<size_t>(id)];
  return "the result of the " + std::string(name(p.op())) + " stage at " + toString(p.location) +
         (!p.segments.empty() ? ", on segments " + quote(p.segments) +
                                    (p.factor > 1 ? " by " + std::to_string(p.factor) : "")
          : p.axis.empty()    ? ", on scale " + std::to_string(p.factor)
                              : ", on the axis of the input " + quote(p.axis));
}

/// Rows of an input's axis have counts of their own, so that nothing there groups or delays, and no
/// score has terms by distance.
void Expander::checkGiven(const Stage &stage, int64_t input) const {
  Op op = stage.op();
  bool moves = op == Op::Shift || op == Op::Shorten || op == Op::Upsample || op == Op::Hourglass ||
               op == Op::TopDown || op == Op::BottomUp || composedOf(stage.settings);
  if (input >= 0 && !axisOf(input).empty() && (moves || op == Op::Head || op == Op::Loss)) {
    fail(stage.location, "expected a stream of the tokens for " + std::string(name(op)) +
                             ", found " + describe(input) +
                             (op == Op::Head ? "; let a layer of the tokens read it with \"over\""
                                             : "; on an input's axis use layers, norms, sums and "
                                               "dropout"));
  }
  const auto *layer = std::get_if<Layer>(&stage.settings);
  const auto *layers = std::get_if<Layers>(&stage.settings);
  Relative relative = layer ? layer->relative : layers ? layers->layer.relative : Relative::None;
  if (input >= 0 && !axisOf(input).empty() && relative != Relative::None) {
    fail(stage.at("relative"),
         "expected \"none\" for \"relative\" on the axis of the input " + quote(axisOf(input)) +
             ", found another; say \"relative\": " + "\"none\" in this stage, or leave it out");
  }
}

/// The stage whose bits make the segments that the settings name; null where they name none.
const Primitive *Expander::cutOf(const Settings &settings) const {
  return cutOf(namedSegments(settings));
}

const Primitive *Expander::cutOf(const std::string &segments) const {
  auto known = segmentations.find(segments);
  return known == segmentations.end() ? nullptr : &result[static_cast<size_t>(known->second.id)];
}

/// The loss whose softmax boundaries ask; null where they name none that is there.
const Primitive *Expander::lossOf(const Boundaries &made) const {
  auto found = std::ranges::find_if(result, [&](const Primitive &primitive) {
    const auto *loss = std::get_if<Loss>(&primitive.settings);
    return loss ? loss->name == made.loss : primitive.op() == Op::Head && made.loss == mainLoss;
  });
  return found == result.end() ? nullptr : &*found;
}

/// Of all boundaries, once the losses are known that stand behind them.
void Expander::checkEntropies() const {
  for (const auto &[stage, id] : cutStages) {
    const Primitive &made = result[static_cast<size_t>(id)];
    const Primitive *asked = lossOf(std::get<Boundaries>(made.settings));
    checkEntropy(*stage, result[static_cast<size_t>(made.input)], describe(made.input), asked,
                 asked && asked->id > id);
  }
}

void Expander::defineSegments(const Boundaries &boundaries, const SourceLocation &location) {
  if (!model.inputs.empty()) {
    fail(location, "expected no segments in a model with named inputs, whose lines are filled up "
                   "with bytes that would count, found both; leave one out");
  }
  Stream made{static_cast<int64_t>(result.size()), location};
  auto [at, added] = segmentations.try_emplace(boundaries.name, made);
  if (!added || model.findInput(boundaries.name)) {
    fail(location, "expected a name that no input and no earlier segments have, found " +
                       quote(boundaries.name) + "; choose another");
  }
}

/// Bits that rows of a stream have at most, one a row that is there.
int64_t Expander::mostBits(int64_t input) const {
  const Primitive &cut = result[static_cast<size_t>(input)];
  auto outer = segmentations.find(cut.segments);
  if (outer == segmentations.end()) {
    return (model.context + cut.factor - 1) / cut.factor;
  }
  return std::get<Boundaries>(result[static_cast<size_t>(outer->second.id)].settings).capacity;
}

/// The segments that the rows of a stage's result are.
std::string Expander::segmentsAfter(const Settings &settings, int64_t input) const {
  if (const Primitive *cut = cutOf(settings)) {
    return std::holds_alternative<Shorten>(settings) ? namedSegments(settings) : cut->segments;
  }
  return input < 0 ? "" : segmentsOf(input);
}

/// Tokens of a row on the scale that is left when all segments are taken back.
int64_t Expander::tokensBelow(int64_t id) const {
  const Primitive *at = &result[static_cast<size_t>(id)];
  while (!at->segments.empty()) {
    at = cutOf(at->segments);
  }
  return at->factor;
}

/// What a stage's "segments" names is there and fits; what an upsample of it reads is kept.
void Expander::checkSegments(const Stage &stage, int64_t input) {
  const Primitive *cut = cutOf(stage.settings);
  if (input >= 0) {
    spec::checkSegments(stage, result[static_cast<size_t>(input)], describe(input), cut,
                        tokensBelow(input));
    auto outer = segmentations.find(segmentsOf(input));
    const Primitive *made =
        outer == segmentations.end() ? nullptr : &result[static_cast<size_t>(outer->second.id)];
    checkDocumentEnd(stage, result[static_cast<size_t>(input)], describe(input),
                     made ? &std::get<Boundaries>(made->settings) : nullptr);
  }
  const auto *upsample = std::get_if<Upsample>(&stage.settings);
  if (upsample && cut) { // row n of a stream that was delayed by one
    auto &made = std::get<Boundaries>(result[static_cast<size_t>(cut->id)].settings);
    made.spare = std::max(made.spare, 1 - upsample->by);
  }
}

/// Over another axis every key is read: its positions are not those of the queries.
Layer Expander::settleOver(const Stage &stage, Layer layer, int64_t input, int64_t second) const {
  checkPlace(second, stage.at("over"));
  if (axisOf(input) == axisOf(second)) {
    bool isApart =
        result[static_cast<size_t>(input)].factor != result[static_cast<size_t>(second)].factor;
    if (isApart && layer.relative != Relative::None && layer.mask.kind == MaskKind::Tokens) {
      fail(stage.at("relative"),
           "expected \"none\" for \"relative\" by a window in tokens between two scales, where a "
           "key "
           "may begin after its query, found another; say \"relative\": \"none\" in this stage, or "
           "use another mask");
    }
    return layer;
  }
  if (!axisOf(input).empty()) {
    fail(stage.at("over"), "expected a layer of the tokens where \"over\" names a stream of "
                           "another axis, as an input is read before the first token, found " +
                               describe(input) + " over " + describe(second));
  }
  if (stage.keys.contains("mask") && layer.mask.kind != MaskKind::Bidirectional) {
    fail(stage.at("mask"), "expected \"bidirectional\" for \"mask\" over the axis of the input " +
                               quote(axisOf(second)) +
                               ", whose positions are not those of the queries, found another; say "
                               "\"mask\": \"bidirectional\" in this stage, or leave it out");
  }
  if (layer.relative != Relative::None) {
    fail(stage.at("relative"),
         "expected \"none\" for \"relative\" over the axis of the input " + quote(axisOf(second)) +
             ", whose positions have no distance from those of the queries, found another; say "
             "\"relative\": \"none\" in this stage, or leave it out");
  }
  layer.mask = {MaskKind::Bidirectional, 0, 0};
  return layer;
}

void Expander::checkAdd(const Stage &stage, int64_t input, int64_t second) const {
  if (axisOf(input) != axisOf(second)) {
    fail(stage.at("with"), "expected two streams of one axis, found " + describe(input) + ", and " +
                               describe(second) + "; let a layer read the other with \"over\"");
  }
  if (result[static_cast<size_t>(input)].factor != result[static_cast<size_t>(second)].factor ||
      segmentsOf(input) != segmentsOf(second)) {
    fail(stage.at("with"), "expected two streams of one scale, found " + describe(input) +
                               ", and " + describe(second) + "; shorten or upsample one of them");
  }
}

/// Numbers are added and replaced column by column.
void Expander::checkWidth(const Stage &stage, int64_t input, int64_t second) const {
  if (widthOf(input) != widthOf(second)) {
    auto described = [this](int64_t id) {
      return describe(id) + ", of width " + std::to_string(widthOf(id));
    };
    fail(stage.at("with"),
         "expected two streams of one width, found " + described(input) + ", and " +
             described(second) +
             "; project one of them to \"width\": " + std::to_string(widthOf(input)));
  }
}

/// A matrix that begins as the identity is square.
void Expander::checkIdentity(const Stage &stage, int64_t read, int64_t rows) const {
  if (std::get<Project>(stage.settings).initial == InitialKind::Identity && widthOf(read) != rows) {
    fail(stage.at("initial"), "expected a matrix of as many rows as columns for \"initial\": "
                              "\"identity\", found " +
                                  std::to_string(rows) + " rows, and " +
                                  std::to_string(widthOf(read)) + " columns of " + describe(read) +
                                  "; say \"normal\", or make the widths equal");
  }
}

/// Rows are scored from the first one on that reads a group, and a group of every scale that a
/// top_down has above it.
void Expander::checkScored(const Stage &stage, const Head &head, int64_t input) const {
  int64_t factor = result[static_cast<size_t>(input)].factor;
  int64_t shift = head.shiftOf(factor), first = head.firstOf(factor);
  int64_t tokens = firstTokens[static_cast<size_t>(input)];
  if (head.tied && widthOf(input) != model.width) {
    fail(stage.at("tied"), "expected a stream of the embedding's width of " +
                               std::to_string(model.width) + " where \"tied\" is true, found " +
                               describe(input) + ", of width " + std::to_string(widthOf(input)) +
                               "; project it to that width, or say \"tied\": false");
  }
  std::string found = head.first || tokens <= shift ? std::to_string(first) : "none";
  if (first < shift) {
    fail(stage.at("first"), "expected \"first\" of at least the shift of " + std::to_string(shift) +
                                ", as earlier rows read no group, found " + found +
                                "; leave it out, or make it larger");
  }
  if (first < tokens) {
    fail(stage.at("first"),
         "expected \"first\" of at least " + std::to_string(tokens) +
             ", as earlier rows have no group of the coarsest scale of a top_down stage, found " +
             found + "; say \"first\": " + std::to_string(tokens) + " in this stage");
  }
  if (first >= model.context) {
    fail(stage.at("first"), "expected a first row that is scored within the context of " +
                                std::to_string(model.context) + ", found row " +
                                std::to_string(first) + "; make the context larger");
  }
}

/// Keys of queries on another scale have a place among them.
void Expander::checkPlace(int64_t keys, const SourceLocation &where) const {
  if (!segmentsOf(keys).empty()) {
    fail(where, "expected keys of no segments, whose rows have no place among the queries, found " +
                    describe(keys) + "; upsample it first");
  }
}

/// Where keys and values of groups of heads come from, one a group.
std::vector<int64_t> Expander::findSources(const Layer &layer, int64_t input) const {
  std::vector<int64_t> sources;
  for (const HeadGroup &group : layer.groups) {
    sources.push_back(group.isPooled ? input : stream(group.over, group.location));
    checkPlace(sources.back(), group.location);
  }
  return sources;
}

int64_t Expander::emit(const Stage &stage, Settings settings, std::string prefix,
                       const SourceLocation &location, int64_t input, int64_t second,
                       std::vector<int64_t> sources) {
  if (result.size() == mostPrimitives) {
    fail(location, "expected a model of at most " + std::to_string(mostPrimitives) +
                       " stages once expanded, found more; use fewer layers");
  }
  bool isComposite =
      stage.op() == Op::Hourglass || stage.op() == Op::TopDown || stage.op() == Op::BottomUp;
  int64_t factor = factorAfter(settings, input, isComposite ? location : stage.at("factor"));
  if (const auto *loss = std::get_if<Loss>(&settings)) {
    defineLoss(*loss, isComposite ? stage.at("bags") : stage.at("name"));
  }
  if (auto *boundaries = std::get_if<Boundaries>(&settings)) {
    boundaries->capacity = std::min(boundaries->capacity, mostBits(input));
    defineSegments(*boundaries, stage.at("name"));
    cutStages.emplace_back(&stage, static_cast<int64_t>(result.size()));
  }
  int64_t id = static_cast<int64_t>(result.size());
  const auto *embedding = std::get_if<Embedding>(&settings);
  std::string axis = !embedding                            ? axisOf(input)
                     : model.findNumbers(embedding->input) ? ""
                                                           : embedding->input;
  auto firstOf = [&](int64_t id) { return id < 0 ? 0 : firstTokens[static_cast<size_t>(id)]; };
  const auto *layer = std::get_if<Layer>(&settings);
  if (layer && sources.empty()) {
    sources = findSources(*layer, input);
  }
  int64_t first = std::max(firstOf(input), firstOf(second));
  for (int64_t source : sources) {
    first = std::max(first, firstOf(source));
  }
  firstTokens.push_back(first);
  std::string segments = segmentsAfter(settings, input);
  int64_t width = widthAfter(settings, widthOf(input));
  result.push_back({id, input, second, factor, width, std::move(axis), std::move(segments),
                    std::move(settings), std::move(prefix), location, stage.keys,
                    std::move(sources), stage.isFrozen});
  if (result.back().op() == Op::Layer) {
    checkSources(result.back(), result);
    checkRows(result.back());
  }
  return id;
}

int64_t Expander::expandStage(const Stage &stage) {
  int64_t input = stage.from.empty() ? previous : stream(stage.from, stage.at("from"));
  input = stage.op() == Op::Embedding ? -1 : input;
  checkGiven(stage, input);
  checkSegments(stage, input);
  if (const auto *add = std::get_if<Add>(&stage.settings)) {
    int64_t second = stream(add->with, stage.at("with"));
    checkAdd(stage, input, second);
    checkWidth(stage, input, second);
    return emit(stage, *add, stage.prefix, stage.location, input, second);
  }
  if (const auto *replace = std::get_if<Replace>(&stage.settings)) {
    int64_t second = stream(replace->with, stage.at("with"));
    checkAdd(stage, input, second);
    checkWidth(stage, input, second);
    return emit(stage, *replace, stage.prefix, stage.location, input, second);
  }
  if (const auto *project = std::get_if<Project>(&stage.settings)) {
    int64_t rows = widthAfter(stage.settings, widthOf(input));
    checkIdentity(stage, input, rows);
    if (project->with.empty()) {
      return emit(stage, *project, stage.prefix, stage.location, input);
    }
    int64_t second = stream(project->with, stage.at("with"));
    checkAdd(stage, input, second);
    checkIdentity(stage, second, rows);
    return emit(stage, *project, stage.prefix, stage.location, input, second);
  }
  if (const auto *layer = std::get_if<Layer>(&stage.settings); layer && layer->isOver) {
    int64_t second = stream(layer->over, stage.at("over"));
    return emit(stage, settleOver(stage, *layer, input, second), stage.prefix, stage.location,
                input, second);
  }
  if (stage.op() == Op::Attend) {
    return expandAttend(stage, input);
  }
  if (const auto *layers = std::get_if<Layers>(&stage.settings)) {
    for (int64_t i = 0; i < layers->count; ++i) {
      input = emit(stage, layers->layer, stage.prefix + ".inside." + std::to_string(i),
                   stage.location, input);
    }
    return input;
  }
  if (std::holds_alternative<Hourglass>(stage.settings)) {
    return expandHourglass(stage, input, appenderOf(stage));
  }
  if (const auto *bottomUp = std::get_if<BottomUp>(&stage.settings)) {
    auto append = [&](Settings settings, std::string prefix, int64_t x,
                      std::vector<int64_t> sources) {
      return emit(stage, std::move(settings), std::move(prefix), stage.at("hierarchy"), x, -1,
                  std::move(sources));
    };
    return expandBottomUp(*bottomUp, stage, input, append);
  }
  if (stage.op() == Op::TopDown) {
    return expandTopDown(stage, input);
  }
  if (const Composed *composed = composedOf(stage.settings)) {
    return expandComposed(*composed, stage, input);
  }
  if (const auto *head = std::get_if<Head>(&stage.settings)) {
    checkScored(stage, *head, input);
  }
  if (const auto *loss = std::get_if<Loss>(&stage.settings)) {
    checkScored(stage, loss->head, input);
  }
  return emit(stage, stage.settings, stage.prefix, stage.location, input);
}

int64_t Expander::expandComposed(const Composed &composed, const Stage &stage, int64_t input) {
  auto outside = std::exchange(streams, {{"input", {input, stage.location}}});
  previous = input;
  expandAll(composed.stages);
  streams = std::move(outside);
  return previous;
}

/// Between a scale and its segments. A text's segments are as many as some stage reads.
int64_t Expander::expandAttend(const Stage &stage, int64_t input) {
  const auto &written = std::get<Attend>(stage.settings);
  int64_t second = stream(written.over, stage.at("over"));
  const Primitive *cut = cutOf(written.segments);
  Attend attend =
      settleAttend(stage, result[static_cast<size_t>(input)], result[static_cast<size_t>(second)],
                   describe(input) + ", and " + describe(second), cut);
  auto &made = std::get<Boundaries>(result[static_cast<size_t>(cut->id)].settings);
  made.spare = std::max(made.spare, attend.asks ? 0 : 1 - attend.by);
  return emit(stage, attend, stage.prefix, stage.location, input, second);
}

int64_t Expander::expandTopDown(const Stage &stage, int64_t input) {
  int64_t factor = result[static_cast<size_t>(input)].factor;
  int64_t made = spec::expandTopDown(stage, input, factor, appenderOf(stage));
  int64_t &first = firstTokens[static_cast<size_t>(made)];
  first = std::max(first, tokensBefore(std::get<TopDown>(stage.settings), factor));
  return made;
}

} // namespace

std::vector<Primitive> expand(const Model &model) { return Expander(model).run(); }

const SourceLocation &Primitive::at(std::string_view key) const {
  auto found = keys.find(key);
  return found == keys.end() ? location : found->second;
}

} // namespace sluice::spec
