// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stage that cuts the tokens into segments (Nawrot et al. 2023, sections 3.1 to 3.3).
#include "Stages.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice::spec {
namespace {

constexpr Interval share = {0, 1, false, true};
constexpr Interval insideOne = {0, 1, false, false};
constexpr Interval aboveOne = {1, std::numeric_limits<double>::infinity(), false, true};

void refuse(const Fields &fields, std::string_view key, std::string_view where) {
  if (fields.find(key)) {
    fields.fail(fields.position(key), "expected " + quote(key) + " only " + std::string(where) +
                                          ", found it elsewhere; leave it out");
  }
}

void readName(const Fields &fields, Boundaries &made) {
  fields.need("name", "the name of the segments");
  made.name = fields.text("name");
  if (!isInputName(made.name)) {
    fields.fail(
        fields.position("name"),
        "expected a word of small letters, digits and _ for \"name\" that nothing else in a plan "
        "has, found " +
            quote(made.name) + "; choose another, such as \"words\"");
  }
}

void readCodingRate(const Fields &fields, Boundaries &made) {
  if (made.rule == BoundaryRule::CodingRate) {
    constexpr int64_t mostRows = 8; // a scalar body has their products, two by two
    if (fields.find("top")) {
      refuse(fields, "threshold", "without \"top\"");
      made.top = fields.number("top", share);
    } else {
      fields.need("threshold", "the rate, in nats, above which a row has a bit");
      made.threshold = fields.number("threshold", {});
    }
    made.epsilon = fields.number("epsilon", positive, 1);
    made.window = fields.integer("window", {1, mostRows}, 4);
    return;
  }
  for (std::string_view key : {"epsilon", "window", "top"}) {
    refuse(fields, key, "beside \"rule\": \"coding_rate\"");
  }
  if (made.rule != BoundaryRule::Entropy) {
    refuse(fields, "threshold", "beside \"rule\": \"entropy\" or \"coding_rate\"");
  }
}

/// By which of three criteria an entropy sets a bit.
void readUnsure(const Fields &fields, Boundaries &made) {
  constexpr int64_t mostRows = 8; // each is an operand of a map
  if (fields.find("spike")) {
    for (std::string_view key : {"threshold", "rise"}) {
      refuse(fields, key, "without \"spike\", which compares entropies with one another");
    }
    made.spike = fields.integer("spike", {1, mostRows});
    return;
  }
  made.isRise = fields.find("rise");
  if (made.isRise) {
    refuse(fields, "threshold", "without \"rise\", which is a threshold of its own");
  } else {
    fields.need("threshold", "the entropy, in nats, above which a segment ends; or a \"rise\" or "
                             "\"spike\"");
  }
  made.threshold = fields.number(made.isRise ? "rise" : "threshold", {});
}

void readRule(const Fields &fields, Boundaries &made) {
  made.begins = fields.choice<bool>("at", {{"end", false}, {"start", true}}, false);
  if (fields.find("rule")) {
    made.rule = fields.choice("rule", std::span<const std::string_view>(boundaryRuleNames),
                              BoundaryRule::Whitespace);
  }
  if (made.rule == BoundaryRule::Every) {
    made.factor = fields.integer("factor", {});
  } else {
    refuse(fields, "factor", "beside \"rule\": \"every\"");
  }
  if (made.rule == BoundaryRule::Entropy) {
    fields.need("loss", "the name of the loss whose softmax says where segments end");
    made.loss = fields.text("loss");
    readUnsure(fields, made);
  } else {
    for (std::string_view key : {"loss", "rise", "spike"}) {
      refuse(fields, key, "beside \"rule\": \"entropy\"");
    }
  }
  readCodingRate(fields, made);
}

/// A number, or one that moves: the last is returned.
double readTarget(const Fields &fields, std::string_view key, Interval interval, Boundaries &made) {
  const JsonValue *value = fields.find(key);
  if (!value || value->kind != JsonKind::Object) {
    return fields.number(key, interval);
  }
  constexpr int64_t mostSteps = (int64_t{1} << 24) - 1; // that f32 counts
  Fields target(*value, fields.fileName(), "a target that moves");
  target.allowOnly({"from", "to", "steps", "jumps"});
  int64_t steps = target.integer("steps", {1, mostSteps});
  int64_t mostJumps = std::min(steps, mostSteps / steps); // their product is counted too
  made.moving = MovingTarget{target.number("from", interval), steps,
                             target.find("jumps") ? target.integer("jumps", {1, mostJumps}) : 0};
  return target.number("to", interval);
}

/// Beside `every` alone a document's end would move no later bit: groups would not begin with it.
void readDocumentEnd(const Fields &fields, Boundaries &made) {
  if (made.rule == BoundaryRule::Every && made.hidden == 0) {
    refuse(fields, "document_end",
           "beside another rule than \"every\", a predictor or a \"ratio\"");
  } else if (fields.find("document_end")) {
    made.documentEnd = fields.integer("document_end", {0});
  }
}

/// A router has its own bits, which begin segments, and its own loss.
void readRouter(const Fields &fields, Boundaries &made) {
  made.ratio = readTarget(fields, "ratio", aboveOne, made);
  made.weight = fields.number("weight", positive, 0.03);
  for (std::string_view key : {"rule", "predictor", "temperature", "prior", "prior_logit"}) {
    refuse(fields, key, "without \"ratio\", which makes a router");
  }
  if (!made.begins) {
    fields.need("at", "\"start\", as bits of a router begin segments");
    fields.fail(fields.position("at"), "expected \"start\" for \"at\" beside \"ratio\", as bits of "
                                       "a router begin segments, found \"end\"; say \"start\"");
  }
}

/// Without a rule the predictor learns from the language model's loss, through Gumbel noise.
void readPredictor(const Fields &fields, Boundaries &made) {
  made.hidden = fields.find("predictor") ? fields.integer("predictor", {}) : 0;
  if (made.hidden == 0 && !made.rule) {
    fields.need("rule", "what ends a segment, such as \"whitespace\"; or add a \"predictor\"");
  }
  if (made.hidden == 0) {
    refuse(fields, "weight", "beside \"predictor\" or \"ratio\"");
  }
  made.weight = fields.number("weight", positive, 1);
  if (made.hidden > 0 && !made.rule) {
    made.temperature = fields.number("temperature", positive, 0.5);
    fields.need("prior", "the share of tokens that should end a segment");
    made.prior = readTarget(fields, "prior", insideOne, made);
    made.addsPriorLogit = fields.boolean("prior_logit", false);
    return;
  }
  for (std::string_view key : {"temperature", "prior", "prior_logit"}) {
    refuse(fields, key, "beside a \"predictor\" without \"rule\"");
  }
}

std::string_view methodOf(const Shorten &pool) {
  return !pool.isSelection ? shorteningNames[static_cast<size_t>(pool.method)]
         : pool.isFirst    ? "first"
                           : "last";
}

/// Selected rows and maxima have no derivative by bits, and a selected row is at one end of its
/// segment.
void checkSelection(const Stage &stage, const Boundaries &made) {
  const auto *pool = std::get_if<Shorten>(&stage.settings);
  if (pool && pool->isSelection && pool->isFirst != made.begins) {
    std::string fits = quote(made.begins ? "first" : "last");
    refuseAt(stage.at("method"), "expected \"average\", \"max\" or " + fits +
                                     " for \"method\", as bits of " + quote(made.name) +
                                     (made.begins ? " begin" : " end") + " segments, found " +
                                     quote(methodOf(*pool)) + "; say " + fits);
  }
  if (pool && !pool->isSelection && made.ratio > 0) {
    refuseAt(stage.at("method"), "expected \"first\" for \"method\" where a router makes the "
                                 "segments, found " +
                                     quote(methodOf(*pool)) + "; say \"first\"");
  }
  const auto *spread = std::get_if<Upsample>(&stage.settings);
  if (spread && spread->smooths && made.ratio == 0) {
    refuseAt(stage.at("method"),
             "expected \"repeat\" or \"scatter\" for \"method\" of segments that "
             "no router makes, found \"smooth\"; give " +
                 quote(made.name) + " a \"ratio\", or say \"repeat\"");
  }
  if (pool && methodOf(*pool) != "average" && made.hidden > 0 && !made.rule) {
    refuseAt(stage.at("method"),
             "expected \"average\" for \"method\" where a predictor without \"rule\" makes the "
             "segments, as a " +
                 std::string(pool->isSelection ? "selected row" : "maximum") +
                 " has no derivative by its bits, found " + quote(methodOf(*pool)) +
                 "; leave it out, or give the boundaries a \"rule\"");
  }
}

/// All but heads, and what reads keys of another scale.
bool standsOnSegments(const Stage &stage) {
  const auto *layer = std::get_if<Layer>(&stage.settings);
  const auto *layers = std::get_if<Layers>(&stage.settings);
  if (const Layer *settings = layer ? layer : layers ? &layers->layer : nullptr) {
    return !settings->isOver && settings->groups.empty();
  }
  if (const auto *hourglass = std::get_if<Hourglass>(&stage.settings)) {
    return !hourglass->attendsDown && !hourglass->attendsUp && hourglass->layer.groups.empty();
  }
  Op op = stage.op();
  return op == Op::Norm || op == Op::Shift || op == Op::Add || op == Op::Project ||
         op == Op::Dropout || op == Op::Shorten || op == Op::Upsample || op == Op::Boundaries ||
         op == Op::Attend;
}

/// A stage that cuts, and one that pools what was cut, read a scale of the tokens or whole
/// segments.
void checkCut(const Stage &stage, const Primitive &input, const std::string &described,
              const Primitive *cut, int64_t tokens) {
  if (cut && (input.segments != cut->segments || input.factor != cut->factor)) {
    refuseAt(stage.at("segments"),
             "expected a stream on the scale that " + toString(cut->location) + " cuts, found " +
                 described + "; name segments of this scale, or move the stream to that one");
  }
  const auto *made = std::get_if<Boundaries>(&stage.settings);
  if (made && !input.segments.empty() && input.factor != 1) {
    refuseAt(stage.location, "expected a stream of the tokens or of whole segments for boundaries, "
                             "found " +
                                 described + "; upsample it first");
  }
  if (made && made->rule && *made->rule != BoundaryRule::Every &&
      *made->rule != BoundaryRule::CodingRate && tokens != 1) {
    refuseAt(stage.at("rule"),
             "expected the rule \"every\" or \"coding_rate\" on groups of tokens, and on segments "
             "of these, as a group has no byte of its own, found another on " +
                 described + "; say \"every\", or upsample it first");
  }
  if (made && made->rule == BoundaryRule::SpaceLike && !input.segments.empty()) {
    refuseAt(stage.at("rule"), "expected the rule \"space_like\" on tokens, as it reads the byte "
                               "before, found it on " +
                                   described + "; take another rule, or upsample it first");
  }
}

} // namespace

std::string namedSegments(const Settings &settings) {
  const auto *pool = std::get_if<Shorten>(&settings);
  const auto *spread = std::get_if<Upsample>(&settings);
  return pool ? pool->segments : spread ? spread->segments : "";
}

void checkSegments(const Stage &stage, const Primitive &input, const std::string &described,
                   const Primitive *cut, int64_t tokens) {
  std::string name = namedSegments(stage.settings);
  if (!name.empty() && !cut) {
    refuseAt(stage.at("segments"),
             "expected the name of segments that an earlier boundaries stage makes, found " +
                 quote(name) + "; give such a stage that name");
  }
  if (cut) {
    checkSelection(stage, std::get<Boundaries>(cut->settings));
  }
  if (stage.op() == Op::Upsample && cut) {
    if (input.segments != name || input.factor != 1) {
      refuseAt(stage.at("segments"),
               "expected a stream of the segments that \"segments\" names, found " + described +
                   (input.segments == name   ? "; upsample it to whole segments first"
                    : input.segments.empty() ? "; shorten it by them first"
                                             : "; say \"segments\": " + quote(input.segments)));
    }
    return;
  }
  checkCut(stage, input, described, cut, tokens);
  if (!input.segments.empty() && !standsOnSegments(stage)) {
    refuseAt(
        stage.location,
        "expected a layer without \"over\" and \"scales\", a norm, shift, shorten, upsample, add, "
        "project, dropout, attend, boundaries or an hourglass without attention resampling, found "
        "a " +
            std::string(spec::name(stage.op())) + " stage of " + described + "; upsample it first");
  }
}

/// Paper and public code differ in fixed bits, in the loss against labels, and in the noise of
/// evaluation (Nawrot et al. 2023).
void readMode(const Fields &fields, Boundaries &made) {
  made.asInCode = fields.choice<bool>("mode", {{"paper", false}, {"reference-code", true}}, false);
  bool isFixed = made.rule == BoundaryRule::Every && !made.begins;
  if (made.asInCode && made.hidden == 0 && !isFixed) {
    fields.fail(
        fields.position("mode"),
        "expected \"reference-code\" for \"mode\" only where it differs from the paper: of a "
        "\"predictor\", or of \"rule\": \"every\" where bits end segments, found it elsewhere; "
        "leave it out");
  }
}

void checkEntropy(const Stage &stage, const Primitive &input, const std::string &described,
                  const Primitive *asked, bool follows) {
  const auto *made = std::get_if<Boundaries>(&stage.settings);
  if (!made || made->rule != BoundaryRule::Entropy) {
    return;
  }
  if (!asked) {
    refuseAt(stage.at("loss"), "expected the name of a loss stage, or " + quote(mainLoss) +
                                   " of the head, for \"loss\", found " + quote(made->loss) +
                                   "; give such a stage that name");
  }
  if (follows && made->hidden == 0) {
    refuseAt(
        stage.at("loss"),
        "expected the name of an earlier loss stage for \"loss\" without a \"predictor\", found "
        "that of " +
            toString(asked->location) +
            ", whose rows may be made of the segments that its entropy would cut, a cycle; add "
            "a \"predictor\", which learns such bits as labels, or name an earlier one");
  }
  const auto *loss = std::get_if<Loss>(&asked->settings);
  const Head &head = loss ? loss->head : std::get<Head>(asked->settings);
  if (asked->factor != 1 || head.shiftOf(asked->factor) > 0) {
    refuseAt(stage.at("loss"),
             "expected a loss on the tokens' scale, without a shift, for \"loss\", "
             "found that of " +
                 toString(asked->location) + "; name another");
  }
  if (!input.segments.empty()) {
    refuseAt(stage.at("rule"),
             "expected the rule \"entropy\" on tokens, each of which has a row of "
             "the loss, found it on " +
                 described + "; take another rule, or upsample it first");
  }
}

void checkDocumentEnd(const Stage &stage, const Primitive &input, const std::string &described,
                      const Boundaries *outer) {
  const auto *made = std::get_if<Boundaries>(&stage.settings);
  if (!made || !made->documentEnd) {
    return;
  }
  const SourceLocation &where = stage.at("document_end");
  if (input.factor != 1) {
    refuseAt(where,
             "expected \"document_end\" on tokens or segments, as a group has no token of its "
             "own, found it on " +
                 described + "; leave it out, or upsample it first");
  }
  if (outer && outer->documentEnd != made->documentEnd) {
    refuseAt(where, "expected segments that end at the same documents below these, found " +
                        quote(outer->name) +
                        (outer->documentEnd
                             ? " with \"document_end\": " + std::to_string(*outer->documentEnd)
                             : " without \"document_end\"") +
                        "; give them \"document_end\": " + std::to_string(*made->documentEnd));
  }
  if (outer && outer->begins && !made->begins) {
    refuseAt(where, "expected \"at\": \"start\" beside \"document_end\" where bits of " +
                        quote(outer->name) +
                        " begin segments, as these are there before their documents end, found "
                        "\"end\"; say \"start\"");
  }
}

double Boundaries::computeLogitShift() const {
  double first = moving ? moving->from : prior;
  return addsPriorLogit ? std::log(first / (1 - first)) : 0;
}

Boundaries readBoundaries(const Fields &fields, int64_t context) {
  Boundaries made;
  readName(fields, made);
  readRule(fields, made);
  if (fields.find("ratio")) {
    readRouter(fields, made);
  } else {
    readPredictor(fields, made);
  }
  readMode(fields, made);
  readDocumentEnd(fields, made);
  bool isRegular = made.rule == BoundaryRule::Every && made.hidden == 0;
  double most = isRegular ? 1.0 / static_cast<double>(made.factor) : 1.0;
  double rows = fields.number("capacity", share, most) * static_cast<double>(context);
  if (fields.find("capacity") && static_cast<float>(rows) < 1) {
    fields.mismatch(*fields.find("capacity"), "capacity",
                    "a share of at least 1 / " + std::to_string(context) +
                        ", room for one segment,",
                    "make it greater");
  }
  made.capacity = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(rows)));
  return made;
}

} // namespace sluice::spec
