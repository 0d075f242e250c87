// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches over planned memory: plan IR and its JSON form.
#include "sluice/Dialect/Plan/Plan.h"
#include "KernelJson.h"
#include "Launches.h"
#include "MemoryJson.h"
#include "StepReads.h"
#include "sluice/Dialect/Dispatch/ResultDomain.h"
#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Step.h"
#include "sluice/Target/Artifact.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include <numeric>

using namespace mlir;
using namespace sluice;
namespace json = llvm::json;

/// Suffix of the name of segments in the name of the loss on their share of the tokens.
constexpr llvm::StringLiteral shareSuffix = ".share";

void sluice::emitPlan(ModuleOp module, const KernelSet &kernels, const MemoryPlan &memory) {
  emitBuffers(module, memory);
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  for (const KernelRecord &record : kernels.records) {
    SmallVector<NamedAttribute> symbols;
    for (const KernelRecord::Variant &variant : record.variants) {
      symbols.push_back(b.getNamedAttr(
          variant.target,
          b.getDictionaryAttr({
              b.getNamedAttr("counters", b.getI64IntegerAttr(variant.counters)),
              b.getNamedAttr("items", b.getI64IntegerAttr(variant.items)),
              b.getNamedAttr("phases", b.getI64IntegerAttr(variant.phases)),
              b.getNamedAttr("scratch_bytes", b.getI64IntegerAttr(variant.scratchBytes)),
              b.getNamedAttr("symbol", b.getStringAttr(variant.symbol)),
              b.getNamedAttr("workspace_bytes", b.getI64IntegerAttr(variant.workspaceBytes)),
          })));
    }
    for (const KernelRecord::DeviceVariant &variant : record.deviceVariants) {
      SmallVector<Attribute> stages;
      for (const KernelRecord::StageRecord &stage : variant.stages) {
        stages.push_back(b.getDictionaryAttr({
            b.getNamedAttr("blocks", b.getI64IntegerAttr(stage.blocks)),
            b.getNamedAttr("shared_bytes", b.getI64IntegerAttr(stage.sharedBytes)),
            b.getNamedAttr("symbol", b.getStringAttr(stage.symbol)),
            b.getNamedAttr("threads", b.getI64IntegerAttr(stage.threads)),
        }));
      }
      symbols.push_back(b.getNamedAttr(
          variant.target->chip,
          b.getDictionaryAttr({
              b.getNamedAttr("counters", b.getI64IntegerAttr(variant.counters)),
              b.getNamedAttr("stages", b.getArrayAttr(stages)),
              b.getNamedAttr("workspace_bytes", b.getI64IntegerAttr(variant.workspaceBytes)),
          })));
    }
    auto bytes = llvm::map_to_vector(record.operands, [](const auto &each) { return each.bytes; });
    auto written = static_cast<uint64_t>(
        llvm::count_if(record.operands, [](const auto &each) { return each.written; }));
    plan::KernelOp::create(b, loc, record.name, record.kind, b.getDictionaryAttr(symbols),
                           APFloat(record.flops), APFloat(record.bytes), bytes, written,
                           record.drawsByUpdate, record.scheduled);
  }
  for (auto func : llvm::to_vector(module.getOps<func::FuncOp>())) {
    emitEntry(func, func.getSymName() + ".plan", kernels, memory, nullptr);
    for (const MemoryBucket &bucket : memory.buckets) {
      if (bucket.entries.contains(func.getSymName())) {
        emitEntry(func, func.getSymName() + bucketMark + Twine(bucket.rows) + ".plan", kernels,
                  memory, &bucket);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// Returns the stages of the spec whose ops the launch computes.
static json::Array stagesToJson(plan::LaunchOp launch) {
  llvm::SetVector<StringRef> stages;
  for (OriginAttr origin : getOrigins(launch.getLoc())) {
    stages.insert(origin.getStage());
  }
  return json::Array(stages.getArrayRef());
}

static json::Array entryToJson(plan::EntryOp entry, const llvm::StringMap<int64_t> &numbers) {
  json::Array nodes;
  for (Operation &op : entry.getBody().front()) {
    if (auto exchange = dyn_cast<plan::AllReduceOp>(op)) {
      nodes.push_back(json::Object{{"collective", "all_reduce"},
                                   {"bucket", static_cast<int64_t>(exchange.getBucket())},
                                   {"after", json::Array(exchange.getAfter())}});
      continue;
    }
    auto launch = cast<plan::LaunchOp>(op);
    json::Object node{{"launch", numbers.lookup(launch.getKernel())},
                      {"arguments", json::Array(launch.getArguments())},
                      {"stream", 0},
                      {"after", json::Array(launch.getAfter())},
                      {"phase", launch.getPhase()}};
    if (auto guard = launch.getGuard()) {
      node["guard"] = json::Object{{"scalar", *guard}, {"equals", 1}};
    }
    if (auto axis = launch.getAxis()) {
      node["axis"] = *axis;
    }
    if (json::Array stages = stagesToJson(launch); !stages.empty()) {
      node["stages"] = std::move(stages);
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

static std::string typeName(Type type) {
  if (type.isF32() || type.isBF16()) {
    return type.isF32() ? "f32" : "bf16";
  }
  return type.isInteger(64) ? "i64" : "i32";
}

/// Returns the named places of a class, with type and shape.
static json::Object placesToJson(const MemoryPlan &memory, StringRef prefix) {
  json::Object result;
  for (const auto &[name, place] : memory.places) {
    if (!StringRef(name).starts_with(prefix)) {
      continue;
    }
    auto type = dyn_cast_or_null<RankedTensorType>(place.type);
    json::Object object{{"offset", place.offset}};
    // Hosts write every scalar, even if no kernel of this model loads it.
    object["type"] = type ? typeName(type.getElementType()) : "i64";
    if (type && prefix != "scalar:") {
      object["shape"] = json::Array(type.getShape());
    }
    if (type && type.getRank() == 3) {
      object["shape"] = json::Array({type.getDimSize(0) * type.getDimSize(1), type.getDimSize(2)});
      object["row_stride"] = dispatch::paddedWidth(type.getDimSize(2));
    }
    result[StringRef(name).drop_front(prefix.size()).str()] = std::move(object);
  }
  return result;
}

/// Returns the alternative memory plans for the same launches, by the maximum number of rows of
/// segments.
static json::Array bucketsToJson(ModuleOp module, const MemoryPlan &memory) {
  json::Array buckets;
  for (const MemoryBucket &bucket : memory.buckets) {
    json::Object entries;
    for (auto entry : module.getOps<plan::EntryOp>()) {
      auto [name, rows] = entry.getSymName().drop_back(StringRef(".plan").size()).split(bucketMark);
      if (rows != std::to_string(bucket.rows)) {
        continue;
      }
      json::Array launches;
      for (auto launch : entry.getOps<plan::LaunchOp>()) {
        json::Object node{{"arguments", json::Array(launch.getArguments())},
                          {"after", json::Array(launch.getAfter())}};
        json::Array runs;
        ArrayRef<int64_t> numbers = launch.getRuns().value_or(ArrayRef<int64_t>());
        for (; !numbers.empty(); numbers = numbers.drop_front(4)) {
          runs.push_back(json::Array(numbers.take_front(4)));
        }
        if (!runs.empty()) {
          node["runs"] = std::move(runs);
        }
        launches.push_back(std::move(node));
      }
      entries[name] = std::move(launches);
    }
    buckets.push_back(json::Object{{"rows", bucket.rows},
                                   {"arena_bytes", bucket.arenaBytes},
                                   {"temporaries_bytes", bucket.temporariesBytes},
                                   {"entries", std::move(entries)}});
  }
  return buckets;
}

/// Returns the states of generation, and the required first tokens of text windows.
static json::Object generationToJson(ModuleOp module, const MemoryPlan &memory) {
  int64_t period = 1;
  for (auto scale : module.getOps<ScaleOp>()) {
    period = scale.getFactor() > 0 ? std::lcm(period, int64_t(scale.getFactor())) : period;
  }
  int64_t rows = cast<RankedTensorType>(memory.places.at("state:done").type).getDimSize(0);
  json::Object states;
  std::map<std::string, ScheduleOp> schedules = stateSchedules(module);
  for (const auto &[name, place] : memory.places) {
    StringRef state(name);
    if (!state.consume_front("state:")) {
      continue;
    }
    auto type = cast<RankedTensorType>(place.type);
    auto op = module.lookupSymbol<StateOp>(state);
    op = op ? op : module.lookupSymbol<StateOp>(state.rsplit('.').first); // a state of keys or
                                                                          // values
    json::Object object{
        {"offset", place.offset},
        {"type", typeName(type.getElementType())},
        {"shape", json::Array(type.getShape())},
        {"scale", op ? getFactor(op, cast<SequenceType>(op.getType())) : int64_t(0)}};
    if (type.getRank() == 3) {
      object["row_stride"] = dispatch::paddedWidth(type.getDimSize(2));
    }
    if (isByLine(module, state, schedules)) {
      object["by_line"] = true;
    }
    if (auto found = schedules.find(state.str()); found != schedules.end()) {
      object["counts"] = rowCountsToJson(found->second, type.getDimSize(1));
    }
    states[state.str()] = std::move(object);
  }
  json::Object rates;
  for (const auto &[guard, rate] : stepRates(module)) {
    json::Object object{{"runs", rate.runs}, {"period", rate.period}};
    if (!rate.segments.empty()) {
      object["segments"] = rate.segments;
    }
    rates[guard] = std::move(object);
  }
  StepReads reads = stepReads(module);
  return json::Object{
      {"rows", rows},
      {"period", period},
      {"states", std::move(states)},
      {"rates", std::move(rates)},
      {"reads", json::Object{{"weights", reads.weights}, {"states", json::Array(reads.states)}}}};
}

static json::Array tensorsToJson(ModuleOp module, const MemoryPlan &memory) {
  json::Array tensors;
  for (const ParameterLayout::Entry &entry : ParameterLayout(module).entries) {
    ParameterOp parameter = entry.parameter;
    auto type = cast<RankedTensorType>(parameter.getType());
    int64_t inner = type.getNumElements() / type.getDimSize(0);
    int64_t row = 0;
    for (auto [name, size] : llvm::zip_equal(parameter.getNames(), parameter.getSizes())) {
      int64_t offset =
          memory.places.at("parameter:" + parameter.getSymName().str()).offset + row * inner * 4;
      int64_t fromStart = offset - memory.places.at("flat:parameters").offset;
      SmallVector<int64_t> shape(type.getShape());
      shape[0] = size;
      json::Object tensor{
          {"name", cast<StringAttr>(name).getValue()},
          {"shape", json::Array(shape)},
          {"type", "f32"},
          {"offset", offset},
          {"gradient", memory.places.at("flat:gradients").offset + fromStart},
          {"states", json::Object{{"adam.m", memory.places.at("flat:adam.m").offset + fromStart},
                                  {"adam.v", memory.places.at("flat:adam.v").offset + fromStart}}},
          {"decay", parameter.getDecay()}};
      if (parameter.getHeld()) {
        tensor["frozen"] = true;
      }
      tensors.push_back(std::move(tensor));
      row += size;
    }
  }
  return tensors;
}

/// Returns the named inputs in addition to tokens, if kernels read them.
static json::Object givenToJson(ModuleOp module, const MemoryPlan &memory) {
  json::Object given;
  auto add = [&](StringRef name, int64_t vocabulary, StringRef on) {
    if (!memory.places.contains(("input:" + name).str())) {
      return;
    }
    json::Object input{{"vocabulary", vocabulary}};
    if (!on.empty()) {
      input["on"] = on;
    }
    given[name] = std::move(input);
  };
  for (auto axis : module.getOps<AxisOp>()) {
    if (axis.getVocabulary()) {
      add(axis.getSymName(), static_cast<int64_t>(*axis.getVocabulary()), "");
    }
    for (NamedAttribute stream : axis.listStreams()) {
      add(stream.getName(), cast<IntegerAttr>(stream.getValue()).getInt(), axis.getSymName());
    }
  }
  return given;
}

static json::Object modelToJson(ModuleOp module, StringRef spec) {
  int64_t count = 0;
  for (const ParameterLayout::Entry &entry : ParameterLayout(module).entries) {
    count += entry.elements;
  }
  json::Object model{{"name", getFact<SluiceDialect::NameAttrHelper>(module).getValue()},
                     {"vocabulary", getFact<SluiceDialect::VocabularyAttrHelper>(module).getInt()},
                     {"context", getContext(module)},
                     {"batch", getBatch(module)},
                     {"width", getFact<SluiceDialect::WidthAttrHelper>(module).getInt()},
                     {"seed", getFact<SluiceDialect::SeedAttrHelper>(module).getInt()},
                     {"spec", spec},
                     {"parameters", count}};
  auto losses = getFact<plan::PlanDialect::LossesAttrHelper>(module);
  if (losses && !losses.empty()) { // leading unscored tokens of the head
    int64_t first = cast<DictionaryAttr>(losses[0]).getAs<IntegerAttr>("first").getInt();
    if (first > 0) {
      model["first"] = first;
    }
  }
  if (auto group = getFact<SluiceDialect::GroupAttrHelper>(module)) {
    model["group"] = group.getInt();
  }
  return model;
}

/// Returns the groups of weights, in their order.
static json::Array groupsToJson(ArrayAttr groups) {
  json::Array list;
  for (Attribute each : groups) {
    auto group = cast<DictionaryAttr>(each);
    json::Object object{{"match", group.getAs<StringAttr>("match").getValue()}};
    for (StringRef name : {"factor", "learning_rate", "weight_decay"}) {
      if (auto number = group.getAs<FloatAttr>(name)) {
        object[name] = number.getValueAsDouble();
      }
    }
    list.push_back(std::move(object));
  }
  return list;
}

static json::Object trainingToJson(ModuleOp module, const SpecRecord &spec) {
  auto training = getFact<SluiceDialect::TrainingAttrHelper>(module);
  double steps = training.getAs<FloatAttr>("steps").getValueAsDouble();
  if (auto then = training.getAs<FloatAttr>("then_steps")) { // second phase of the schedule
    steps += then.getValueAsDouble();
  }
  json::Object object{{"steps", static_cast<int64_t>(steps)},
                      {"targets", spec.trainsOnTokens ? "tokens" : "distributions"}};
  if (int64_t batches = batchesOfUpdate(module); batches > 1) {
    object["accumulate"] = batches;
  }
  if (spec.batchTokens > 0) {
    object["batch_tokens"] = spec.batchTokens;
  }
  if (auto order = training.getAs<StringAttr>("order")) {
    object["order"] = order.getValue();
  }
  if (auto groups = training.getAs<ArrayAttr>("groups")) {
    object["groups"] = groupsToJson(groups);
  }
  return object;
}

/// Returns the losses that `sluice.objective` recorded.
static json::Array lossesToJson(ModuleOp module) {
  json::Array losses;
  auto records = getFact<plan::PlanDialect::LossesAttrHelper>(module);
  for (Attribute record : records ? records.getValue() : ArrayRef<Attribute>()) {
    auto loss = cast<DictionaryAttr>(record);
    StringRef name = loss.getAs<StringAttr>("name").getValue();
    json::Object object{{"name", name},
                        {"rows", plan::lossesName(losses.size())},
                        {"mean", plan::meanName(name)},
                        {"factor", loss.getAs<FloatAttr>("factor").getValueAsDouble()},
                        {"first", loss.getAs<IntegerAttr>("first").getInt()}};
    if (auto target = loss.getAs<StringAttr>("target")) {
      object["target"] = target.getValue();
    }
    losses.push_back(std::move(object));
  }
  return losses;
}

/// Returns the losses whose rows the model counts. The rows are outputs after the losses.
static json::Array countedToJson(ModuleOp module) {
  json::Array list;
  auto records = getFact<plan::PlanDialect::LossesAttrHelper>(module);
  for (Attribute record : records ? records.getValue() : ArrayRef<Attribute>()) {
    auto loss = cast<DictionaryAttr>(record);
    if (auto counted = loss.getAs<StringAttr>("counted")) {
      auto getName = [](StringRef place) { return place.substr(place.find(':') + 1).str(); };
      int64_t first = loss.getAs<IntegerAttr>("first").getInt();
      list.push_back(json::Object{{"loss", loss.getAs<StringAttr>("name").getValue()},
                                  {"rows", plan::lossesName(records.size() + list.size())},
                                  {"sum", getName(countedScalar(counted))},
                                  {"divisor", getName(weightsScalar(counted, first))}});
    }
  }
  return list;
}

/// Returns each axis of segments that an entry computes, in module order: outer axes come first.
static json::Array segmentsToJson(ModuleOp module, const MemoryPlan &memory) {
  json::Array segments;
  auto losses = getFact<plan::PlanDialect::LossesAttrHelper>(module);
  auto isLoss = [&](const std::string &name) {
    return llvm::any_of(losses ? losses.getValue() : ArrayRef<Attribute>(), [&](Attribute record) {
      return cast<DictionaryAttr>(record).getAs<StringAttr>("name").getValue() == name;
    });
  };
  for (auto axis : module.getOps<AxisOp>()) {
    StringRef name = axis.getSymName();
    if (!axis.getSegments() || !memory.places.contains("scalar:" + plan::countsName(name))) {
      continue;
    }
    auto cut = module.lookupSymbol<ScaleOp>(*axis.getSegments());
    json::Object object{{"axis", name},
                        {"factor", static_cast<int64_t>(cut.getFactor())},
                        {"capacity", static_cast<int64_t>(*axis.getRows())},
                        {"counts", plan::countsName(name)},
                        {"length", plan::lengthName(name)}};
    if (module.lookupSymbol<AxisOp>(cut.getAxis()).getSegments()) {
      object["parent"] = cut.getAxis();
    }
    if (std::string share = (name + shareSuffix).str(); isLoss(share)) {
      object["share"] = share;
    }
    if (memory.places.contains("state:" + plan::closedName(name))) {
      object["closed"] = plan::closedName(name);
    }
    segments.push_back(std::move(object));
  }
  return segments;
}

static json::Array buffersToJson(const MemoryPlan &memory) {
  json::Array buffers;
  for (const auto &[name, place] : memory.places) {
    auto [kind, rest] = StringRef(name).split(':');
    buffers.push_back(json::Object{{"name", name},
                                   {"offset", place.offset},
                                   {"bytes", place.bytes},
                                   {"device", 0},
                                   {"class", kind}});
  }
  for (const auto &[i, temporary] : llvm::enumerate(memory.temporaries)) {
    buffers.push_back(json::Object{{"name", temporary.entry + "." + std::to_string(i)},
                                   {"offset", temporary.offset},
                                   {"bytes", temporary.bytes},
                                   {"device", 0},
                                   {"class", "activation"}});
  }
  if (memory.counterBytes > 0) {
    buffers.push_back(json::Object{{"name", "counters"},
                                   {"offset", memory.workspaceOffset - memory.counterBytes},
                                   {"bytes", memory.counterBytes},
                                   {"device", 0},
                                   {"class", "counters"}});
  }
  if (memory.workspaceBytes > 0) {
    buffers.push_back(json::Object{{"name", "workspace"},
                                   {"offset", memory.workspaceOffset},
                                   {"bytes", memory.workspaceBytes},
                                   {"device", 0},
                                   {"class", "workspace"}});
  }
  return buffers;
}

json::Value sluice::planToJson(ModuleOp module, const KernelSet &kernels, const MemoryPlan &memory,
                               const SpecRecord &spec, const ProofRecord &proof,
                               const Targets &targets) {
  json::Array kernelList;
  llvm::StringMap<int64_t> numbers;
  for (const KernelRecord &record : kernels.records) {
    numbers[record.name] = static_cast<int64_t>(kernelList.size());
    kernelList.push_back(kernelToJson(record));
  }
  json::Object entries, ofFactors;
  json::Array shapes = spec.shapes;
  for (auto entry : module.getOps<plan::EntryOp>()) {
    StringRef symbol = entry.getSymName().drop_back(StringRef(".plan").size());
    if (symbol.contains(bucketMark)) {
      continue;
    }
    json::Object *list = &entries;
    if (auto factor = entry.getFactor()) {
      list = ofFactors.try_emplace(std::to_string(*factor), json::Object())
                 .first->second.getAsObject();
    } else if (auto shape = entry.getShape()) {
      list = shapes[*shape]
                 .getAsObject()
                 ->try_emplace("entries", json::Object())
                 .first->second.getAsObject();
    }
    (*list)[entry.getOf().value_or(symbol)] = entryToJson(entry, numbers);
  }
  json::Object given = givenToJson(module, memory);
  json::Object plan{{"format", "sluice-plan"},
                    {"version", 4},
                    {"model", modelToJson(module, spec.text)},
                    {"proof", json::Object{{"verdict", proof.verdict},
                                           {"modes", json::Array(proof.modes)},
                                           {"certificate", proof.certificate}}},
                    {"targets", json::Array(targets.getNames())},
                    {"training", trainingToJson(module, spec)},
                    {"memory", memoryToJson(memory)},
                    {"constants", json::Object{{"offset", memory.constantsOffset},
                                               {"bytes", memory.constantsBytes}}},
                    {"scalars", placesToJson(memory, "scalar:")},
                    {"inputs", placesToJson(memory, "input:")},
                    {"outputs", placesToJson(memory, "output:")},
                    {"tensors", tensorsToJson(module, memory)},
                    {"gradients", gradientsToJson(memory, ParameterLayout(module).getBuckets())},
                    {"kernels", std::move(kernelList)},
                    {"entries", std::move(entries)},
                    {"buffers", buffersToJson(memory)}};
  if (spec.facts) {
    plan["facts"] = json::Object(*spec.facts);
  }
  if (!given.empty()) {
    plan["given"] = std::move(given);
  }
  if (auto factors = getFact<plan::PlanDialect::FactorsAttrHelper>(module)) {
    plan["factors"] = json::Object{{"main", factors[0]}, {"entries", std::move(ofFactors)}};
  }
  if (!shapes.empty()) {
    plan["shapes"] = std::move(shapes);
  }
  if (!memory.buckets.empty()) {
    plan["buckets"] = bucketsToJson(module, memory);
  }
  if (json::Array losses = lossesToJson(module); losses.size() > 1) {
    plan["losses"] = std::move(losses);
  }
  if (json::Array counted = countedToJson(module); !counted.empty()) {
    plan["counted"] = std::move(counted);
  }
  if (json::Array segments = segmentsToJson(module, memory); !segments.empty()) {
    plan["segments"] = std::move(segments);
  }
  if (module.lookupSymbol("step.plan")) {
    plan["generation"] = generationToJson(module, memory);
  }
  return plan;
}
