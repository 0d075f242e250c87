// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the objects and stages of a spec into ops of the spec dialect.
#include "CheckSpec.h"
#include "Values.h"

#include "sluice/Conversion/CreateStage.h"
#include "sluice/Conversion/JsonToSpec.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Spec/VerifyModel.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/TypeSwitch.h"

#include <filesystem>
#include <map>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

namespace {

constexpr int64_t formatVersion = 1;

/// Turns the first error that is reported into a Failure.
class ErrorsAsFailures {
public:
  explicit ErrorsAsFailures(MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error && !failure) {
            failure.emplace();
            failure->diagnostic.message = diagnostic.str();
            if (auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>()) {
              failure->diagnostic.location = {place.getFilename().str(), place.getLine(),
                                              place.getColumn()};
            }
          }
          return success();
        }) {}

  /// Throws the Failure if an error was reported.
  void check() {
    if (failure) {
      throw Failure(std::move(*failure));
    }
  }

private:
  std::optional<Failure> failure;
  ScopedDiagnosticHandler handler;
};

class SpecReader {
public:
  SpecReader(MLIRContext *context, const std::string &file)
      : builder(context), file(file), values(context, file), errors(context) {}

  OwningOpRef<ModelOp> read(const JsonValue &root);

private:
  struct NamedStream {
    Value value;
    SourceLocation location; ///< location of the "to" that named it
  };

  void checkVersion(const Fields &top) const;
  void readInputs(const Fields &top);
  InputOp readInput(const Fields &fields, const std::string &name, Position position);
  void readDefaults(const Fields &top);
  void readStages(const Fields &top);
  void readStage(const JsonValue &value, size_t index, size_t count);
  const ObjectInfo &findKind(const JsonValue &value) const;
  void checkOrder(const ObjectInfo &stage, const Fields &fields, size_t index, size_t count) const;
  void checkInputName(const Fields &fields) const;
  NamedAttrList readStageKeys(const Fields &fields, const ObjectInfo &stage, Places &places);
  SmallVector<Value> readOperands(const Fields &fields, const ObjectInfo &stage) const;
  void dropUncountedDistances(const Fields &fields, NamedAttrList &attributes) const;
  Value findStream(const Fields &fields, std::string_view name, Position position) const;
  Value findSegments(const Fields &fields) const;
  void define(const Fields &fields, Operation *stage);
  /// Creates the op of an object that is not a stage from the value of `key` in `parent`; uses
  /// defaults if the key is absent.
  void readObject(const Fields *parent, std::string_view key, StringRef definition);
  Operation *createObject(const Fields *fields, const ObjectInfo &object, const Places &places,
                          NamedAttrList attributes);
  void readGroups(const Fields &training);
  void checkReads(const Fields &top);

  OpBuilder builder;
  const std::string &file;
  ValueReader values;
  ErrorsAsFailures errors;
  mutable ModelOp model;
  std::optional<Fields> defaults;
  std::map<std::string, NamedStream, std::less<>> streams, segments;
  Value previous;
};

} // namespace

//===----------------------------------------------------------------------===//
// Objects
//===----------------------------------------------------------------------===//

void SpecReader::checkVersion(const Fields &top) const {
  const JsonValue &version = top.need("sluice", "1, the version of the spec's format");
  if (version.kind != JsonKind::Integer || version.integer != formatVersion) {
    top.mismatch(version, "sluice", "1, the version of the spec's format",
                 "this program reads no other version");
  }
}

Operation *SpecReader::createObject(const Fields *fields, const ObjectInfo &object,
                                    const Places &places, NamedAttrList attributes) {
  Location place = fields ? places.locate(fields->position()) : model.getLoc();
  OperationState state(getStageLoc(place, places.get()), "spec." + std::string(object.word),
                       ValueRange(), TypeRange(), attributes.getAttrs());
  Operation *op = builder.create(state);
  (void)mlir::verify(op);
  errors.check();
  return op;
}

void SpecReader::readObject(const Fields *parent, std::string_view key, StringRef definition) {
  const ObjectInfo &object = getObject(std::string_view(definition));
  Places places(builder.getContext(), file);
  const JsonValue *value = parent ? parent->find(key) : nullptr;
  std::optional<Fields> fields;
  NamedAttrList attributes;
  if (value) {
    fields.emplace(*value, file, std::string(object.what));
    fields->allowOnly(getKeyNames(object));
    attributes = values.readKeys(*fields, object, places);
  }
  createObject(fields ? &*fields : nullptr, object, places, attributes);
  if (object.word == "training") {
    readObject(fields ? &*fields : nullptr, "schedule", "Spec_ScheduleOp");
    if (fields && fields->find("groups")) {
      readGroups(*fields);
    }
  } else if (object.word == "schedule" && fields && fields->find("then")) {
    readObject(&*fields, "then", "Spec_FallOp");
  }
}

/// Reads the groups of weights of the training settings.
void SpecReader::readGroups(const Fields &training) {
  const JsonValue &list = *training.find("groups");
  if (list.kind != JsonKind::Array) {
    training.mismatch(list, "groups", "a list of groups of weights",
                      R"(as in [{"match": "*.bias", "learning_rate": 1e-3}])");
  }
  const ObjectInfo &object = getObject("Spec_GroupOp");
  for (const JsonValue &item : list.items) {
    Places places(builder.getContext(), file);
    Fields group(item, file, std::string(object.what));
    group.allowOnly(getKeyNames(object));
    createObject(&group, object, places, values.readKeys(group, object, places));
  }
}

/// Reads an input: tokens on an axis of their own, or numbers for each token.
InputOp SpecReader::readInput(const Fields &fields, const std::string &name, Position position) {
  const ObjectInfo &object = getObject("Spec_InputOp");
  fields.allowOnly(getKeyNames(object));
  Places places(builder.getContext(), file);
  NamedAttrList attributes = values.readKeys(fields, object, places);
  auto axis = dyn_cast_or_null<InputAxisAttr>(attributes.get("axis"));
  bool isOfTokens = axis && axis.getValue() == InputAxis::tokens;
  if (!attributes.get("type")) {
    attributes.set(
        "type", InputContentsAttr::get(builder.getContext(), isOfTokens ? InputContents::numbers
                                                                        : InputContents::tokens));
  }
  auto contents = cast<InputContentsAttr>(attributes.get("type")).getValue();
  bool isNumbers = contents == InputContents::numbers;
  if (contents == InputContents::edges) {
    fields.need("on", "the name of an input of tokens");
  } else if (isNumbers && isOfTokens) {
    fields.need("role", object.find("role")->hint);
    auto role = cast<InputUseAttr>(attributes.get("role")).getValue();
    int64_t usual = role == InputUse::target ? model.getVocabulary() : 1;
    if (!attributes.get("width")) {
      attributes.set("width", builder.getI64IntegerAttr(usual));
    }
  } else if (!isNumbers && !isOfTokens) {
    if (!attributes.get("on")) {
      fields.integer("context", {});
    }
    if (!attributes.get("vocabulary") && !attributes.get("derived")) {
      attributes.set("vocabulary", builder.getI64IntegerAttr(model.getVocabulary()));
    }
  }
  attributes.set("sym_name", builder.getStringAttr(name));
  OperationState state(getStageLoc(places.locate(position), places.get()), "spec.input",
                       ValueRange(), TypeRange(), attributes.getAttrs());
  auto op = cast<InputOp>(builder.create(state));
  (void)mlir::verify(op);
  errors.check();
  return op;
}

void SpecReader::readInputs(const Fields &top) {
  const JsonValue *list = top.find("inputs");
  if (list && list->kind != JsonKind::Object) {
    top.mismatch(*list, "inputs", "an object of inputs by name",
                 R"(as in {"source": {"context": 64}})");
  }
  std::map<std::string, InputOp> inputs, streams, edges, numbers;
  for (const JsonMember &member : list ? list->members : std::vector<JsonMember>()) {
    if (!isPlanName(member.key)) {
      top.fail(member.position, "expected the name of an input: " + planNameRule.str() +
                                    ", found " + quote(member.key) +
                                    "; choose another, such as \"source\"");
    }
    InputOp input = readInput(Fields(member.value, file, "the input " + quote(member.key)),
                              member.key, member.position);
    (input.isNumbers() ? numbers
     : input.isEdges() ? edges
     : input.getOn()   ? streams
                       : inputs)[member.key] = input;
  }
  Operation *last = nullptr; // sorts inputs by name: axes, other tokens, edges, numbers
  for (auto *group : {&inputs, &streams, &edges, &numbers}) {
    for (auto &[name, input] : *group) {
      if (last) {
        input->moveAfter(last);
      } else {
        input->moveBefore(&model.getBody().front(), model.getBody().front().begin());
      }
      last = input;
    }
  }
  (void)verifyInputAxes(model);
  errors.check();
  if (!inputs.empty() && !numbers.empty()) {
    emitError(getKeyLoc(numbers.begin()->second, ""))
        << "expected no input on the axis \"tokens\" with inputs that have axes of their own, "
           "found "
        << quote(numbers.begin()->first) << " and " << quote(inputs.begin()->first)
        << "; lines of such inputs take no rows of numbers yet: leave one out";
    errors.check();
  }
}

void SpecReader::readDefaults(const Fields &top) {
  if (const JsonValue *value = top.find("defaults")) {
    const ObjectInfo &section = getObject("DefaultsSection");
    defaults.emplace(*value, file, std::string(section.what));
    defaults->allowOnly(getKeyNames(section));
    Places places(builder.getContext(), file);
    values.readKeys(*defaults, section, places, "", /*isPartial=*/true);
    values.setDefaults(&*defaults);
  }
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

const ObjectInfo &SpecReader::findKind(const JsonValue &value) const {
  Fields fields(value, file, "a stage");
  fields.need("op", "one of the stages' kinds");
  std::string word = fields.text("op");
  if (const ObjectInfo *stage = findStage(word)) {
    return *stage;
  }
  const KeyInfo &op = *findStage("layer")->find("op");
  fields.fail(fields.position("op"), "expected the kind of a stage for \"op\", found " +
                                         quote(word) + "; " + suggestion(word, op.words, "kinds"));
}

/// Fails unless an embedding of the tokens comes first, and a head or a contrast last.
void SpecReader::checkOrder(const ObjectInfo &stage, const Fields &fields, size_t index,
                            size_t count) const {
  bool isFirst = index == 0, isLast = index + 1 == count;
  bool isEnd = stage.word == "head" || (isLast && stage.word == "contrast");
  if ((isFirst && (stage.word != "embedding" || fields.find("input"))) || isLast != isEnd) {
    std::string expected = isFirst  ? "an embedding of the tokens as the first stage"
                           : isLast ? "a head, or a contrast, as the last stage"
                                    : "only the last stage to be a head";
    fields.fail(fields.position("op"), "expected " + expected + ", found " + quote(stage.word) +
                                           " as stage " + std::to_string(index + 1) + " of " +
                                           std::to_string(count));
  }
}

Value SpecReader::findStream(const Fields &fields, std::string_view name, Position position) const {
  if (auto found = streams.find(name); found != streams.end()) {
    return found->second.value;
  }
  std::vector<std::string_view> known;
  for (const auto &entry : streams) {
    known.push_back(entry.first);
  }
  fields.fail(position, "expected the name of an earlier stage's result, found " + quote(name) +
                            "; " +
                            (known.empty() ? "no stage before this one has a \"to\""
                                           : suggestion(name, known, "names")));
}

Value SpecReader::findSegments(const Fields &fields) const {
  std::string name = fields.text("segments");
  if (auto found = segments.find(name); found != segments.end()) {
    return found->second.value;
  }
  fields.fail(fields.position("segments"),
              "expected the name of segments that an earlier boundaries stage makes, found " +
                  quote(name) + "; give such a stage that name");
}

/// Fails if an embedding names no input.
void SpecReader::checkInputName(const Fields &fields) const {
  std::string name = fields.text("input");
  if (InputOp input = model.findInput(name); input && !input.isEdges()) {
    return;
  }
  std::vector<std::string> names;
  for (auto input : model.getBody().getOps<InputOp>()) {
    if (input.isTokens()) {
      names.push_back(input.getSymName().str());
    }
  }
  std::vector<std::string_view> known(names.begin(), names.end());
  fields.fail(fields.position("input"),
              "expected the name of an input, found " + quote(name) + "; " +
                  (known.empty() ? R"(the spec has none: add it to "inputs")"
                                 : suggestion(name, known, "inputs")));
}

/// Returns the stream that a stage reads, then the streams and segments that its keys name.
SmallVector<Value> SpecReader::readOperands(const Fields &fields, const ObjectInfo &stage) const {
  SmallVector<Value> operands;
  if (stage.find("from")) {
    operands.push_back(fields.find("from")
                           ? findStream(fields, fields.text("from"), fields.position("from"))
                           : previous);
  }
  for (const KeyInfo &key : stage.keys) {
    const JsonValue *value = fields.find(key.name);
    if (!value || key.name == "from") {
      continue;
    }
    if (key.kind == KeyKind::Stream || (key.name == "over" && value->kind == JsonKind::String)) {
      operands.push_back(findStream(fields, fields.text(key.name), value->position));
    } else if (key.kind == KeyKind::Segments) {
      operands.push_back(findSegments(fields));
    } else if (key.name == "over") {
      for (const JsonValue &item : value->items) {
        Fields source(item, file, "a source of keys and values");
        operands.push_back(findStream(source, source.text("stream"), source.position("stream")));
      }
    }
  }
  return operands;
}

/// Drops "distances" if the layer counts no distances, as `defaults` may set it for other layers.
/// Fails if the layer's own keys set it.
void SpecReader::dropUncountedDistances(const Fields &fields, NamedAttrList &attributes) const {
  auto distances = dyn_cast_or_null<DistanceUnitAttr>(attributes.get("distances"));
  auto relative = dyn_cast_or_null<RelativeAttr>(attributes.get("relative"));
  bool isXl = relative && !hasDistanceTable(relative.getTerms());
  if (!distances || distances.getValue() != DistanceUnit::rows || isXl) {
    return;
  }
  if (fields.isOwn("distances")) {
    fields.fail(fields.position("distances"),
                "expected \"distances\": \"rows\" only with Transformer-XL's \"relative\" terms, "
                "found it without; leave it out of this stage, or write \"relative\": \"xl\"");
  }
  attributes.erase("distances");
}

NamedAttrList SpecReader::readStageKeys(const Fields &fields, const ObjectInfo &stage,
                                        Places &places) {
  NamedAttrList attributes = values.readKeys(fields, stage, places);
  dropUncountedDistances(fields, attributes);
  if (stage.inherits && defaults) {
    for (const KeyInfo &key : stage.keys) {
      if (const JsonValue *value = defaults->find(key.name)) {
        places.add("defaults." + std::string(key.name), value->position);
      }
    }
  }
  for (std::string_view part : {"local", "global"}) {
    const KeyInfo *key = stage.find(part);
    if (key && defaults && !fields.find(part)) {
      NamedAttrList own = values.readKeys(*defaults, getObject("DefaultsSection"), places,
                                          std::string(part) + ".", true);
      attributes.set(key->attribute, own.getDictionary(builder.getContext()));
    }
    for (const KeyInfo &setting : getObject("DefaultsSection").keys) {
      if (key && defaults && defaults->find(setting.name)) {
        places.add("defaults." + std::string(setting.name), defaults->position(setting.name));
      }
    }
  }
  return attributes;
}

void SpecReader::define(const Fields &fields, Operation *stage) {
  if (auto cut = dyn_cast<BoundariesOp>(stage)) {
    SourceLocation location = fields.locate(fields.position("name"));
    bool hasInputs = llvm::any_of(model.getBody().getOps<InputOp>(),
                                  [](InputOp input) { return input.isTokens(); });
    bool isGiven = cast<StreamType>(cut.getInput().getType()).getAxis() == AxisKind::input;
    if (hasInputs && !isGiven) {
      throw Failure{{location, "expected no segments of the tokens in a model with named inputs, "
                               "whose lines are filled up with bytes that would count, found both; "
                               "leave one out"}};
    }
    if (!segments.try_emplace(cut.getName().str(), NamedStream{cut.getResult(), location}).second ||
        model.findInput(cut.getName())) {
      throw Failure{
          {location, "expected a name that no input and no earlier segments have, found " +
                         quote(cut.getName()) + "; choose another"}};
    }
    return;
  }
  for (Value inside : llvm::drop_begin(stage->getResults(), std::min(1U, stage->getNumResults()))) {
    std::string name = cast<SegmentationType>(inside.getType()).getName().str();
    segments.try_emplace(name, NamedStream{inside, fields.locate(fields.position())});
  }
  if (stage->getNumResults() == 0) {
    return;
  }
  previous = stage->getResult(0);
  std::string name = fields.text("to", "");
  SourceLocation location = fields.locate(fields.position("to"));
  if (name.empty()) {
    return;
  }
  auto [at, isNew] = streams.try_emplace(name, NamedStream{previous, location});
  if (!isNew) {
    throw Failure{{location, "expected a name that no earlier result has, found " + quote(name) +
                                 ", which " + toString(at->second.location) +
                                 " defines; choose another"}};
  }
}

void SpecReader::readStage(const JsonValue &value, size_t index, size_t count) {
  const ObjectInfo &stage = findKind(value);
  Fields fields(value, file, std::string(stage.what));
  fields.allowOnly(getKeyNames(stage));
  fields.text("from", "");
  std::string result = fields.text("to", "");
  bool isFrozen = fields.boolean("frozen", false);
  std::string share = fields.text("share", "");
  if (stage.inherits && defaults) {
    fields.inherit(&*defaults);
  }
  Places places(builder.getContext(), file);
  NamedAttrList attributes = readStageKeys(fields, stage, places);
  if (stage.word == "embedding" && fields.find("input")) {
    checkInputName(fields);
  }
  checkOrder(stage, fields, index, count);
  attributes.set("path", builder.getStringAttr("stages." + Twine(index)));
  if (!result.empty()) {
    attributes.set("to", builder.getStringAttr(result));
  }
  if (isFrozen) {
    attributes.set("frozen", builder.getUnitAttr());
  }
  if (!share.empty()) {
    attributes.set("share", builder.getStringAttr(share));
  }
  SmallVector<Value> operands = readOperands(fields, stage);
  Operation *op = createStage(builder, getStageLoc(places.locate(value.position), places.get()),
                              StringRef(stage.word), operands, attributes.getAttrs());
  errors.check();
  define(fields, op);
}

void SpecReader::readStages(const Fields &top) {
  const JsonValue &list = top.need("stages", "an array of stages");
  if (list.kind != JsonKind::Array || list.items.size() < 2) {
    bool hasOne = list.kind == JsonKind::Array && !list.items.empty();
    top.fail(list.position, "expected an array of at least two stages for \"stages\", found " +
                                (hasOne ? "one stage" : describe(list)) +
                                "; begin with an embedding and end with a head");
  }
  for (auto [i, item] : llvm::enumerate(list.items)) {
    readStage(item, i, list.items.size());
  }
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

/// Returns true if some stage reads the input.
static bool isRead(ModelOp model, InputOp input) {
  StringRef name = input.getSymName();
  bool isFound = false;
  model.walk([&](Operation *op) {
    if (auto embedding = dyn_cast<EmbeddingOp>(op)) {
      isFound |= embedding.getInput() == name;
    }
    for (StringRef key : {"edges", "intra_edges"}) {
      isFound |= isa<GraphConvolutionOp, UmstOp, MultiStageOp>(op) &&
                 getKeyValue(op, key) == StringAttr::get(op->getContext(), name);
    }
    if (auto boundaries = dyn_cast<BoundariesOp>(op)) {
      isFound |= boundaries.getBits() == name;
    }
    auto findName = [&](auto loss) {
      isFound |= loss.getTarget() == name || loss.getWeights() == name;
    };
    llvm::TypeSwitch<Operation *>(op).Case<HeadOp, LossOp>(findName).Default([](Operation *) {});
  });
  return isFound;
}

/// Fails for an input that no stage reads, and for distances in rows that no layer counts.
void SpecReader::checkReads(const Fields &top) {
  const JsonValue *distances = defaults ? defaults->find("distances") : nullptr;
  bool areCounted = false;
  model.walk([&](LayerSettingsInterface layer) {
    areCounted |= layer.getDistances() == DistanceUnit::rows;
  });
  if (distances && distances->text == "rows" && !areCounted) {
    defaults->fail(distances->position,
                   "expected a stage with Transformer-XL's \"relative\" terms where the defaults "
                   "have \"distances\": \"rows\", found none; leave \"distances\" out");
  }
  for (auto input : model.getBody().getOps<InputOp>()) {
    if (isRead(model, input)) {
      continue;
    }
    std::string name = input.getSymName().str();
    if (input.isNumbers()) {
      emitError(getKeyLoc(input, "")) << "expected a stage that reads the input " << quote(name)
                                      << ", found none; name it as \"target\" or \"weights\" of a "
                                         "loss or the head, or leave the "
                                         "input out";
    } else if (input.isEdges()) {
      emitError(getKeyLoc(input, ""))
          << "expected a stage that reads the edges " << quote(name)
          << R"(, found none; add {"op": "graph_convolution", "edges": ")" << name
          << "\"}, or leave the input out";
    } else {
      emitError(getKeyLoc(input, "")) << "expected a stage that embeds the input " << quote(name)
                                      << R"(, found none; add {"op": "embedding", "input": ")"
                                      << name << "\"}, or leave the input out";
    }
    errors.check();
  }
}

OwningOpRef<ModelOp> SpecReader::read(const JsonValue &root) {
  Places places(builder.getContext(), file);
  if (root.kind != JsonKind::Object) {
    throw Failure{{{file, root.position.line, root.position.column},
                   "expected an object with the model's spec ({ ... }), found " + describe(root)}};
  }
  const ObjectInfo &object = getObject("Spec_ModelOp");
  Fields top(root, file, std::string(object.what));
  top.allowOnly(getKeyNames(object));
  checkVersion(top);
  std::string stem = std::filesystem::path(file).stem().string();
  bool isUtf8 = !countCharacters(stem, 0, stem.size()).invalid;
  std::string name = top.text("name", isUtf8 ? stem : showText(stem));
  NamedAttrList attributes = values.readKeys(top, object, places);
  attributes.set("name", builder.getStringAttr(name));
  OperationState state(getStageLoc(places.locate(root.position), places.get()), "spec.model",
                       ValueRange(), TypeRange(), attributes.getAttrs());
  state.addRegion()->emplaceBlock();
  model = cast<ModelOp>(Operation::create(state));
  OwningOpRef<ModelOp> owner(model);
  builder.setInsertionPointToEnd(&model.getBody().front());
  readInputs(top);
  readDefaults(top);
  Operation *settings = model.getBody().front().empty() ? nullptr : &model.getBody().front().back();
  readStages(top);
  checkReads(top);
  if (settings) {
    builder.setInsertionPointAfter(settings);
  } else {
    builder.setInsertionPointToStart(&model.getBody().front());
  }
  readObject(&top, "precision", "Spec_PrecisionOp");
  readObject(&top, "training", "Spec_TrainingOp");
  (void)checkSpec(model);
  errors.check();
  return owner;
}

OwningOpRef<ModelOp> sluice::readSpec(MLIRContext &context, StringRef text, const std::string &file,
                                      spec::Diagnostic &error) {
  context.loadDialect<SpecDialect>();
  try {
    JsonValue root = parseJson(std::string_view(text), file);
    return SpecReader(&context, file).read(root);
  } catch (Failure &failure) {
    error = std::move(failure.diagnostic);
    return {};
  }
}
