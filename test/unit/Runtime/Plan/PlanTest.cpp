// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"
#include "sluice/Runtime/Plan/Inspect.h"
#include "sluice/Runtime/Plan/MemoryTable.h"
#include "sluice/Support/Json.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

/// A change to a valid plan, and the name that the message must contain.
struct WrongPlan {
  const char *name;
  void (*change)(Json &);
  const char *message;
};

/// The generation part of a plan, without states.
Json buildGeneration(int64_t rows, int64_t period) {
  return {{"rows", rows},
          {"period", period},
          {"states", Json::object()},
          {"rates", {{"due.0", {{"runs", 1}, {"period", 4}}}}},
          {"reads", {{"weights", 100}, {"states", {10, 30}}}}};
}

/// A bucket of `bytes` with the launches of the entry `evaluate`, the first with these runs.
Json withBuckets(const Json &plan, int64_t bytes, const std::vector<std::vector<int64_t>> &runs) {
  Json launches = Json::array();
  for (const Json &node : plan["entries"]["evaluate"]) {
    launches.push_back({{"arguments", node["arguments"]}, {"after", Json::array()}});
  }
  launches[0]["runs"] = runs;
  return {{{"rows", 4},
           {"arena_bytes", bytes},
           {"temporaries_bytes", 0},
           {"entries", {{"evaluate", launches}}}}};
}

TEST(Plan, AveragesTheReadsOfAStep) {
  Generation generation;
  generation.stateReads = {10, 30};
  EXPECT_EQ(generation.stateReadsAt(0, 8, 16), 10);
  EXPECT_EQ(generation.stateReadsAt(0, 16, 16), 20);
  EXPECT_EQ(generation.stateReadsAt(6, 9, 16), (10 + 10 + 30) / 3.0);
}

/// Rows of a group of 4, computed at its last token: none before step 3, then one in four steps.
TEST(Plan, CountsTheRowsOfAState) {
  StateCounts counts{3, 1, {1, 1, 1, 1}};
  std::vector<int64_t> found;
  for (int64_t step = -1; step < 12; ++step) {
    found.push_back(counts.after(step));
  }
  EXPECT_EQ(found, (std::vector<int64_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3}));
}

/// Facts of a spec with a stream of segments and a predictor.
Json factsOfSpec() {
  return {{"precision", {{"compute", "bf16"}, {"residual", "f32"}}},
          {"optimizer",
           {{"kind", "adam"},
            {"learning_rate", 3e-4},
            {"beta1", 0.9},
            {"beta2", 0.95},
            {"epsilon", 1e-8},
            {"weight_decay", 0.1},
            {"clip", 1}}},
          {"schedule",
           {{"kind", "constant"},
            {"warmup", 10},
            {"steps", 100},
            {"floor", 0.1},
            {"then", {{"steps", 20}, {"floor", 0}}}}},
          {"streams",
           {{{"stage", "stages.1"}, {"factor", 4}, {"op", "layer"}},
            {{"stage", "stages.3"}, {"factor", 1}, {"rows", "segments"}, {"of", "words"}},
            {{"stage", "stages.4"}, {"factor", 1}, {"rows", "none"}},
            {{"stage", "stages.5"}, {"factor", 4}, {"value", "stages.1"}}}},
          {"names", {{{"name", "coarse"}, {"stage", "stages.1"}}}},
          {"boundaries",
           {{{"name", "words"},
             {"value", "stages.2.out"},
             {"numbers", "logits"},
             {"factor", 2},
             {"shift", -0.5},
             {"parent", "parts"},
             {"begins", true},
             {"document_end", 3}}}}};
}

TEST(Plan, ReadsGroupsOfWeights) {
  Json text = bigramPlan();
  EXPECT_TRUE(parsePlan(text.dump(), "x").groups.empty());
  text["training"]["groups"] = {{{"match", "*.bias"}, {"factor", 2}, {"learning_rate", 6e-4}},
                                {{"match", "table"}, {"factor", 1}, {"weight_decay", 0}}};
  Plan plan = parsePlan(text.dump(), "x");
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[0].match, "*.bias");
  EXPECT_EQ(plan.groups[0].factor, 2);
  EXPECT_EQ(plan.groups[0].learningRate, 6e-4);
  EXPECT_EQ(plan.groups[0].weightDecay, std::nullopt);
  EXPECT_EQ(plan.groups[1].learningRate, std::nullopt);
  EXPECT_EQ(plan.groups[1].weightDecay, 0);
  text["training"]["groups"][1].erase("factor");
  EXPECT_NE(userError([&] { parsePlan(text.dump(), "x"); }).find("\"factor\""), std::string::npos);
}

TEST(Plan, ReadsTheFactsOfASpec) {
  Json text = bigramPlan();
  EXPECT_FALSE(parsePlan(text.dump(), "x").facts); // an artifact of an earlier version
  EXPECT_FALSE(parsePlan(text.dump(), "x").trainsOnTokens);
  text["facts"] = factsOfSpec();
  text["entries"]["gradient"][0]["stages"] = {"stages.1", "stages.0"};
  text["training"]["targets"] = "distributions";
  Plan plan = parsePlan(text.dump(), "x");
  EXPECT_EQ(plan.trainsOnTokens, false);
  ASSERT_TRUE(plan.facts);
  const SpecFacts &facts = *plan.facts;
  EXPECT_EQ(facts.compute + " " + facts.residual, "bf16 f32");
  EXPECT_EQ(facts.optimizer.kind, "adam");
  EXPECT_EQ(facts.optimizer.learningRate, 3e-4);
  EXPECT_EQ(facts.schedule.kind, "constant");
  ASSERT_TRUE(facts.schedule.then);
  EXPECT_EQ(facts.schedule.then->steps, 20);
  ASSERT_EQ(facts.streams.size(), 4u);
  EXPECT_EQ(facts.streams[0].rows, StreamFacts::RowAxis::tokens);
  EXPECT_EQ(facts.streams[0].factor, 4);
  EXPECT_EQ(facts.streams[0].op + facts.streams[1].op, "layer");
  EXPECT_EQ(plan.entries.at("gradient")[0].stages.at(1), "stages.0");
  EXPECT_TRUE(plan.entries.at("gradient")[1].stages.empty());
  EXPECT_EQ(facts.streams[1].rows, StreamFacts::RowAxis::segments);
  EXPECT_EQ(facts.streams[1].of, "words");
  EXPECT_EQ(facts.streams[2].rows, StreamFacts::RowAxis::none);
  EXPECT_EQ(facts.streams[0].value, "stages.1");
  EXPECT_EQ(facts.streams[3].value, "stages.1");
  EXPECT_EQ(facts.names.at(0).stage, "stages.1");
  const BoundaryFacts &words = facts.boundaries.at(0);
  EXPECT_EQ(words.numbers, BoundaryFacts::BoundaryEncoding::logits);
  EXPECT_EQ(words.value + " " + words.parent, "stages.2.out parts");
  EXPECT_EQ(words.shift, -0.5);
  EXPECT_TRUE(words.begins);
  EXPECT_EQ(words.documentEnd, 3);
}

class PlanRefuses : public testing::TestWithParam<WrongPlan> {};

TEST(Plan, ReadsEveryField) {
  Plan plan = parsePlan(bigramPlan().dump(), "x");
  EXPECT_EQ(plan.model.context, 16);
  EXPECT_EQ(plan.tensors[0].elements(), 128 * 128);
  EXPECT_EQ(plan.tensors[0].states.at("adam.v"), 201536);
  EXPECT_EQ(plan.outputs.at("logits").rowStride, 144);
  EXPECT_EQ(plan.outputs.at("losses").rowStride, 16);
  ASSERT_TRUE(plan.entries.at("update")[1].guard);
  EXPECT_EQ(plan.entries.at("update")[1].guard->scalar, "finite");
  EXPECT_EQ(plan.entries.at("gradient")[3].after, std::vector<int64_t>{2});
  EXPECT_EQ(plan.buffers.at(0).kind, "activation");
}

/// A plan with segments within segments and two losses, with arbitrary names.
Json planOfSegments() {
  Json plan = bigramPlan();
  plan["scalars"]["length.rows"] = {{"offset", 0}, {"type", "i32"}};
  plan["scalars"]["closed"] = {{"offset", 64}, {"type", "f32"}};
  plan["losses"] = {
      {{"name", "2"}, {"factor", 1}, {"first", 0}, {"rows", "losses"}, {"mean", "loss"}},
      {{"name", "loss.loss"}, {"factor", 0}, {"first", 0}, {"rows", "logits"}, {"mean", "closed"}}};
  plan["segments"] = {{{"axis", "closed.x"},
                       {"parent", "length"},
                       {"factor", 2},
                       {"capacity", 3},
                       {"counts", "length.rows"},
                       {"length", "step"},
                       {"share", "loss.loss"}},
                      {{"axis", "length"},
                       {"factor", 1},
                       {"capacity", 7},
                       {"counts", "finite"},
                       {"length", "length"}}};
  plan["entries"]["predict"][0]["axis"] = "closed.x";
  return plan;
}

TEST(Plan, ListsSegmentsAndLossesOfAnyName) {
  Plan plan = parsePlan(planOfSegments().dump(), "x");
  EXPECT_EQ(plan.losses.at(1).rows, "logits");
  EXPECT_EQ(plan.losses.at(1).mean, "closed");
  const SegmentFacts &inner = plan.segments.at(0);
  EXPECT_EQ(inner.axis + " " + inner.parent + " " + inner.counts + " " + inner.length + " " +
                inner.share + " " + inner.closed,
            "closed.x length length.rows step loss.loss ");
  EXPECT_EQ(inner.factor, 2);
  EXPECT_EQ(inner.capacity, 3);
  EXPECT_EQ(plan.entries.at("predict")[0].axis, "closed.x");
  EXPECT_EQ(plan.entries.at("gradient")[0].axis, "");
}

/// The sufficient arena of an entry, and the source of the number of segments on the host.
TEST(Plan, ReadsBuckets) {
  Json text = planOfSegments();
  text["scalars"]["room"] = {{"offset", 128}, {"type", "i64"}};
  int64_t all = text["memory"]["arena_bytes"];
  text["buckets"] = withBuckets(text, all - 64, {{3, 4, 64, 16}});
  text["buckets"][0]["entries"]["evaluate"][0]["arguments"][4] = 267520; // 64 bytes lower
  Plan plan = parsePlan(text.dump(), "x");
  const Launch &first = plan.entries.at(entryOfBucket("evaluate", 4)).at(0);
  ASSERT_EQ(first.runs.size(), 1u);
  EXPECT_EQ(first.runs[0].operand, 3u);
  EXPECT_EQ(first.runs[0].count, 4);
  EXPECT_EQ(first.runs[0].stride, 64);
  EXPECT_EQ(first.runs[0].bytes, 16);
  EXPECT_TRUE(plan.entries.at("evaluate").at(0).runs.empty());
  EXPECT_TRUE(plan.isOfBucket("evaluate@4"));
  EXPECT_FALSE(plan.isOfBucket("evaluate"));
  EXPECT_EQ(plan.getArenaBytes("evaluate@4"), all - 64);
  EXPECT_EQ(plan.getArenaBytes("evaluate"), all);
  EXPECT_EQ(plan.getArenaBytes("update"), all - 64); // the same in all
  EXPECT_EQ(plan.arenaFor(0), all - 64);
  EXPECT_EQ(plan.arenaFor(all), all);
  EXPECT_EQ(plan.lastingBytes(), plan.buffers.at(0).offset); // the first temporary's
  EXPECT_TRUE(plan.countsIn(plan.entries.at("evaluate")).empty());
  Launch &writer = plan.entries.at("evaluate").at(0);
  size_t written = plan.kernels[static_cast<size_t>(writer.kernel)].operands.size() - 1;
  writer.arguments.at(written) = plan.scalars.at("step").offset; // the length of "closed.x"
  std::vector<Plan::Count> counts = plan.countsIn(plan.entries.at("evaluate"));
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts[0].launch, 0u);
  EXPECT_EQ(counts[0].segments->axis, "closed.x");
}

TEST(Plan, ReadsTheEntriesOfOtherFactors) {
  Json text = bigramPlan();
  Json own = {{"gradient", Json::array()}, {"evaluate", Json::array()}, {"predict", Json::array()}};
  text["factors"] = {{"main", 4}, {"entries", {{"12", own}, {"3", own}, {"2", own}}}};
  Plan plan = parsePlan(text.dump(), "x");
  EXPECT_EQ(plan.factors, (std::vector<int64_t>{4, 2, 3, 12}));
  EXPECT_EQ(plan.sortedFactors(), (std::vector<int64_t>{2, 3, 4, 12}));
  EXPECT_TRUE(plan.entries.contains("gradient.12") && plan.entries.contains("predict.2"));
  own.erase("predict");
  for (const auto &[name, entries] : {std::pair("4", text["factors"]["entries"]["3"]),
                                      std::pair("two", own), std::pair("5", own)}) {
    Json wrong = text;
    wrong["factors"]["entries"][name] = entries;
    EXPECT_NE(findPlanMistake(wrong.dump()), "") << name;
  }
}

/// The contents of the arena, and the budget: as parsed, and as a table.
TEST(Plan, ReadsTheContentsOfTheArena) {
  Json text = bigramPlan();
  text["memory"]["contents"] = {{{"scale", 1}, {"kind", "kept"}, {"bytes", 1536}},
                                {{"scale", 1}, {"kind", "gradients"}, {"bytes", 512}},
                                {{"scale", 4}, {"kind", "recomputed"}, {"bytes", 64}},
                                {{"scale", 0}, {"kind", "weights"}, {"bytes", 1024}}};
  text["memory"]["peak"] = {{"entry", "gradient"}, {"launch", 3}, {"place", "a.json:2:3"}};
  text["memory"]["budget"] = {{"bytes", 9}, {"full_bytes", 8}, {"launches", 7}, {"flops", 6}};
  Plan plan = parsePlan(text.dump(), "x");
  EXPECT_EQ(plan.memory.contents.at(2).scale, 4);
  EXPECT_EQ(plan.memory.budget->fullBytes, 8);
  std::string table = showMemoryTable(plan);
  for (const char *line : {"launch 4 of 4 in gradient (backward, ", ", made for a.json:2:3\n",
                           "  1                           1.5 KiB            -        512 B        "
                           "    -      2.0 KiB\n",
                           "  4                                 -         64 B            -        "
                           "    -         64 B\n",
                           "  weights                                                              "
                           "           1.0 KiB\n"}) {
    EXPECT_NE(table.find(line), std::string::npos) << line << "is not in\n" << table;
  }
  Json json = describeMemory(plan);
  EXPECT_EQ(json["contents"], text["memory"]["contents"]);
  EXPECT_EQ(json["budget"], text["memory"]["budget"]);
  EXPECT_EQ(json["peak"]["phase"], "backward");
  plan.memory.peak->launch = 4; // which no entry has
  EXPECT_FALSE(describeMemory(plan)["peak"].contains("kernel"));
}

TEST_P(PlanRefuses, WithAMessageThatNamesTheField) {
  Json plan = planOfSegments();
  GetParam().change(plan);
  std::string message = userError([&] { parsePlan(plan.dump(), "art"); });
  EXPECT_EQ(message.substr(0, 9), "art: plan");
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

const WrongPlan wrongPlans[] = {
    {"UnknownKey", [](Json &p) { p["extra"] = 1; }, "\"extra\""},
    {"MissingKey", [](Json &p) { p.erase("tensors"); }, "\"tensors\""},
    {"Budget", [](Json &p) { p["memory"]["budget"] = {{"bytes", 1}}; }, "\"full_bytes\""},
    {"Version", [](Json &p) { p["version"] = 2; }, "plan.version"},
    {"TargetsOfNoKind", [](Json &p) { p["training"]["targets"] = "words"; },
     "plan.training.targets"},
    {"FactsWithoutSchedule",
     [](Json &p) {
       p["facts"] = factsOfSpec();
       p["facts"].erase("schedule");
     },
     "\"schedule\""},
    {"StreamOfUnnamedSegments",
     [](Json &p) {
       p["facts"] = factsOfSpec();
       p["facts"]["streams"][1].erase("of");
     },
     "plan.facts.streams[1]: expected \"of\" beside \"rows\""},
    {"BoundariesOfOtherNumbers",
     [](Json &p) {
       p["facts"] = factsOfSpec();
       p["facts"]["boundaries"][0]["numbers"] = "words";
     },
     "plan.facts.boundaries[0].numbers"},
    {"SegmentsTwice", [](Json &p) { p["segments"][1]["axis"] = "closed.x"; },
     "plan.segments[1].axis"},
    {"SegmentsOfNoParent", [](Json &p) { p["segments"][0]["parent"] = "x"; },
     "plan.segments[0].parent"},
    {"SegmentsWithoutCounts", [](Json &p) { p["segments"][0].erase("counts"); }, "\"counts\""},
    {"CountsOfSegmentsOfI64", [](Json &p) { p["segments"][0]["counts"] = "rows"; },
     "plan.segments[0].counts"},
    {"CountsOfSegmentsBeyondTheArena",
     [](Json &p) {
       p["scalars"]["length.rows"]["offset"] = 300352 - 64;
       p["model"]["batch"] = 9;
     },
     "plan.segments[0].counts"},
    {"LengthOfSegmentsOfNoScalar", [](Json &p) { p["segments"][0]["length"] = "length.x"; },
     "plan.segments[0].length"},
    {"ShareOfNoLoss", [](Json &p) { p["segments"][0]["share"] = "loss"; },
     "plan.segments[0].share"},
    {"ClosedSegmentsOfNoState",
     [](Json &p) {
       p["segments"][0]["closed"] = "closed.x";
       p["generation"] = buildGeneration(2, 1);
     },
     "plan.generation.states"},
    {"LaunchOverNoSegments", [](Json &p) { p["entries"]["predict"][0]["axis"] = "x"; },
     "plan.entries.predict[0].axis"},
    {"LossOfNoOutput", [](Json &p) { p["losses"][1]["rows"] = "losses.1"; }, "plan.losses[1].rows"},
    {"MeanOfNoScalar", [](Json &p) { p["losses"][1]["mean"] = "loss.2"; }, "plan.losses[1].mean"},
    {"BucketWithoutEntries", [](Json &p) { p["buckets"] = Json::array({Json{{"rows", 4}}}); },
     "\"arena_bytes\""},
    {"BucketOfOtherLaunches",
     [](Json &p) {
       Json launches = Json::array();
       p["buckets"] = Json::array({Json{{"rows", 4},
                                        {"arena_bytes", 0},
                                        {"temporaries_bytes", 0},
                                        {"entries", {{"evaluate", launches}}}}});
     },
     "as many launches as the plan's entry \"evaluate\" has"},
    {"BucketOfLessThanItsLaunchesTouch", [](Json &p) { p["buckets"] = withBuckets(p, 64, {}); },
     "operands in the 64 bytes of the bucket's arena"},
    {"RunsOutsideTheirOperand",
     [](Json &p) {
       p["buckets"] = withBuckets(p, p["memory"]["arena_bytes"], {{0, 2, 1 << 20, 4}});
     },
     "plan.buckets[0].entries.evaluate[0].runs[0]: expected [operand, runs, bytes from one to the "
     "next, bytes of one], rising operands, runs within them, found [0,2,1048576,4]"},
    {"RunsThatDoNotRise",
     [](Json &p) {
       p["buckets"] = withBuckets(p, p["memory"]["arena_bytes"], {{0, 1, 4, 4}, {0, 1, 4, 4}});
     },
     "plan.buckets[0].entries.evaluate[0].runs[1]: expected [operand"},
    {"Format", [](Json &p) { p["format"] = "other"; }, "plan.format"},
    {"UnknownModelKey", [](Json &p) { p["model"]["depth"] = 1; }, "plan.model: "},
    {"UnknownNodeKey", [](Json &p) { p["entries"]["predict"][0]["x"] = 1; },
     "plan.entries.predict[0]"},
    {"UnknownNodeKind", [](Json &p) { p["entries"]["predict"][0] = {{"copy", 1}}; },
     "does not know"},
    {"Call",
     [](Json &p) { p["entries"]["predict"][0] = {{"call", "gemm"}, {"arguments", Json::array()}}; },
     "library call"},
    {"UnknownEntry", [](Json &p) { p["entries"]["dream"] = Json::array(); }, "\"dream\""},
    {"WorkspaceOutsideTheArena",
     [](Json &p) {
       Json &variant = p["kernels"][0]["variants"]["cpu-avx2"];
       variant["workspace_bytes"] = p["memory"]["arena_bytes"];
       variant["counters"] = 1;
     },
     "a workspace"},
    {"GenerationWithoutItsEntries", [](Json &p) { p["generation"] = buildGeneration(1, 1); },
     "prefill"},
    {"GenerationOfNoPeriod", [](Json &p) { p["generation"] = buildGeneration(1, 0); },
     "plan.generation.period"},
    {"StateOfOtherRows",
     [](Json &p) {
       p["generation"] = buildGeneration(2, 1);
       p["generation"]["states"]["done"] = {
           {"offset", 0}, {"type", "i64"}, {"shape", {3}}, {"scale", 0}};
     },
     "a shape of 2 rows"},
    {"StateOutsideTheArena",
     [](Json &p) {
       p["generation"] = buildGeneration(2, 1);
       p["generation"]["states"]["done"] = {
           {"offset", 300352}, {"type", "i64"}, {"shape", {2}}, {"scale", 0}};
     },
     "plan.generation.states.done"},
    {"StateWithFallingCounts",
     [](Json &p) {
       p["generation"] = buildGeneration(2, 1);
       p["generation"]["states"]["x"] = {{"offset", 0},
                                         {"type", "f32"},
                                         {"shape", {2, 4}},
                                         {"scale", 1},
                                         {"counts", {{"first", 0}, {"rise", 1}, {"rows", {2, 1}}}}};
     },
     "plan.generation.states.x.counts.rows"},
    {"StateWithCountsOfUnknownSegments",
     [](Json &p) {
       p["generation"] = buildGeneration(2, 1);
       p["generation"]["states"]["x"] = {
           {"offset", 0},
           {"type", "f32"},
           {"shape", {2, 4}},
           {"scale", 1},
           {"counts", {{"first", 0}, {"rise", 1}, {"rows", {1}}, {"segments", "words"}}}};
     },
     "plan.generation.states.x.counts.segments"},
    {"StateWithCountsOfNoRows",
     [](Json &p) {
       p["generation"] = buildGeneration(2, 1);
       p["generation"]["states"]["x"] = {{"offset", 0},
                                         {"type", "i64"},
                                         {"shape", {2}},
                                         {"scale", 0},
                                         {"counts", {{"first", 0}, {"rise", 1}, {"rows", {1}}}}};
     },
     "a shape with stored rows"},
    {"AccumulationWithoutItsEntry", [](Json &p) { p["training"]["accumulate"] = 2; },
     "the entry \"accumulate\", as an update has 2 batches"},
    {"AccumulationOfOneBatch", [](Json &p) { p["entries"]["accumulate"] = Json::array(); },
     "no entry \"accumulate\", as an update has one batch"},
    {"AccumulationWithoutItsScalar",
     [](Json &p) {
       p["training"]["accumulate"] = 2;
       p["entries"]["accumulate"] = Json::array();
     },
     "the scalar \"first_row\" of type i64"},
    {"BatchTokensWithoutShapes", [](Json &p) { p["training"]["batch_tokens"] = 64; },
     "\"shapes\" with \"batch_tokens\", and only then, found none"},
    {"ShapesWithoutInputs",
     [](Json &p) {
       p["training"]["batch_tokens"] = 64;
       p["shapes"] = Json::array();
     },
     "shapes only in a model with named inputs"},
    {"DrawRowsOfFloats",
     [](Json &p) { p["scalars"]["draw_rows"] = {{"offset", 0}, {"type", "f32"}}; },
     "\"draw_rows\" of type i64"},
    {"InputWithoutItsCounts", [](Json &p) { p["given"]["tokens"] = {{"vocabulary", 9}}; },
     "and its counts, i64 [batch]"},
    {"UnalignedOffset", [](Json &p) { p["scalars"]["seed"]["offset"] = 68; }, "multiple of 64"},
    {"UnalignedTensor", [](Json &p) { p["tensors"][0]["offset"] = 3393; }, "multiple of 4"},
    {"TensorPastTheEnd", [](Json &p) { p["tensors"][0]["offset"] = 300352; }, "inside the arena"},
    {"StatePastTheEnd", [](Json &p) { p["tensors"][0]["states"]["adam.m"] = 300288; }, "adam.m"},
    {"ScalarPastTheEnd", [](Json &p) { p["scalars"]["seed"]["offset"] = 300352; },
     "plan.scalars.seed"},
    {"NegativeOffset", [](Json &p) { p["scalars"]["seed"]["offset"] = -64; },
     "plan.scalars.seed.offset"},
    {"HugeShape", [](Json &p) { p["tensors"][0]["shape"] = {4294967296, 4294967296}; }, "shape"},
    {"HugeStride", [](Json &p) { p["outputs"]["logits"]["row_stride"] = int64_t(1) << 62; },
     "row_stride"},
    {"NarrowStride", [](Json &p) { p["outputs"]["logits"]["row_stride"] = 127; }, "row_stride"},
    {"KernelIndex", [](Json &p) { p["entries"]["predict"][0]["launch"] = 8; }, "from 0 to 7"},
    {"Items", [](Json &p) { p["kernels"][0]["variants"]["cpu-avx2"]["items"] = int64_t(1) << 31; },
     "from 0 to 2147483647"},
    {"LaterDependency", [](Json &p) { p["entries"]["evaluate"][1]["after"] = {1}; }, "after"},
    {"GuardOfNoScalar", [](Json &p) { p["entries"]["update"][1]["guard"]["scalar"] = "x"; },
     "integer scalar"},
    {"GuardOfFloat", [](Json &p) { p["entries"]["update"][1]["guard"]["scalar"] = "loss"; },
     "integer scalar"},
    {"TensorTwice", [](Json &p) { p["tensors"][1]["name"] = p["tensors"][0]["name"]; },
     "each tensor once"},
    {"FractionalSize", [](Json &p) { p["model"]["batch"] = 1.5; }, "plan.model.batch"},
    {"HugeUnsigned", [](Json &p) { p["model"]["seed"] = uint64_t(1) << 63; }, "plan.model.seed"},
    {"OtherDevice", [](Json &p) { p["buffers"][0]["device"] = 1; }, "device"},
    {"KernelKind", [](Json &p) { p["kernels"][0]["kind"] = "magic"; }, "plan.kernels[0].kind"},
};
INSTANTIATE_TEST_SUITE_P(Plan, PlanRefuses, testing::ValuesIn(wrongPlans),
                         [](const auto &test) { return test.param.name; });

/// The bigram plan with a kernel for the product of 8 x 16 and 16 x 4, which no entry launches.
Json planWithProduct() {
  Json plan = bigramPlan(), kernel = plan["kernels"][0];
  kernel["operands"] = {{{"bytes", 7 * 64 + 32}, {"written", false}},
                        {{"bytes", 128}, {"written", false}},
                        {{"bytes", 7 * 32 + 16}, {"written", true}}};
  kernel["product"] = {{"rows", 8},           {"columns", 4},      {"depth", 16},
                       {"by_input", false},   {"type", "f32"},     {"input_stride", 32},
                       {"weight_stride", 16}, {"result_stride", 8}};
  kernel["variants"]["sm_80"] = {
      {"module", "k"},
      {"stages", {{{"symbol", "k"}, {"blocks", 1}, {"threads", 32}, {"shared_bytes", 0}}}},
      {"workspace_bytes", 0},
      {"library",
       {{"name", "cublaslt"}, {"version", 130100}, {"algorithm", std::string(128, '0')}}}};
  plan["kernels"].push_back(kernel);
  return plan;
}

TEST(Plan, ReadsProducts) {
  Plan plan = parsePlan(planWithProduct().dump(), "x");
  const PlanKernel &kernel = plan.kernels.back();
  ASSERT_TRUE(kernel.product);
  EXPECT_EQ(kernel.product->depth, 16);
  EXPECT_EQ(kernel.product->inputStride, 32);
  EXPECT_EQ(kernel.product->type, Type::f32);
  ASSERT_TRUE(kernel.deviceVariants.at("sm_80").library);
  EXPECT_EQ(kernel.deviceVariants.at("sm_80").library->version, 130100);
}

TEST(Plan, RejectsWrongProducts) {
  auto refuses = [](void (*change)(Json &kernel), const char *piece) {
    Json plan = planWithProduct();
    change(plan["kernels"].back());
    std::string message = userError([&] { parsePlan(plan.dump(), "art"); });
    EXPECT_NE(message.find(piece), std::string::npos) << message;
  };
  refuses([](Json &k) { k["product"]["batch"] = 1; }, "product: expected only keys");
  refuses([](Json &k) { k["product"].erase("type"); }, "the key \"type\"");
  refuses([](Json &k) { k["product"]["type"] = "i32"; }, "product.type");
  refuses([](Json &k) { k["product"]["columns"] = 0; }, "product.columns");
  refuses([](Json &k) { k["product"]["input_stride"] = 15; }, "product.input_stride");
  refuses([](Json &k) { k["product"]["input_stride"] = 33; }, "8 rows of 16 elements fit in 480");
  refuses([](Json &k) { k["product"]["result_stride"] = 9; }, "8 rows of 4 elements fit in 240");
  refuses([](Json &k) { k["product"]["by_input"] = true; }, "16 rows of 4 elements fit in 128");
  refuses([](Json &k) { k["operands"][2]["written"] = false; }, "two operands and one result");
  refuses([](Json &k) { k["operands"].erase(1); }, "two operands and one result");
  refuses([](Json &k) { k.erase("product"); }, "\"product\" with the \"library\" of sm_80");
  refuses([](Json &k) { k["variants"]["sm_80"]["library"]["name"] = "x"; }, "library.name");
  refuses([](Json &k) { k["variants"]["sm_80"]["library"]["algorithm"] = "0"; },
          "128 hexadecimal digits");
}

/// A plan with two shapes of batches, and an input whose lists of edges take 512 bytes in the
/// second.
Json planWithShapes(int64_t bytesOfEdges) {
  Json plan = bigramPlan();
  int64_t end = plan["memory"]["arena_bytes"];
  plan["memory"]["arena_bytes"] = end + 320 + bytesOfEdges;
  plan["inputs"]["source"] = {{"offset", end}, {"type", "i32"}, {"shape", {4, 16}}};
  plan["inputs"]["source.count"] = {{"offset", end + 256}, {"type", "i64"}, {"shape", {4}}};
  plan["inputs"]["edges.source.links"] = {
      {"offset", end + 320}, {"type", "i32"}, {"shape", {4, 24}}};
  plan["given"]["source"] = {{"vocabulary", 9}};
  plan["training"]["batch_tokens"] = 64;
  Json entries = {{"gradient", plan["entries"]["gradient"]},
                  {"evaluate", plan["entries"]["evaluate"]}};
  plan["shapes"] = {
      {{"rows", 4}, {"context", 16}, {"inputs", {{"source", 16}}}},
      {{"rows", 8}, {"context", 8}, {"inputs", {{"source", 8}}}, {"entries", std::move(entries)}}};
  return plan;
}

TEST(Plan, ReadsShapesOfBatches) {
  Plan plan = parsePlan(planWithShapes(512).dump(), "art");
  ASSERT_EQ(plan.shapes.size(), 2U);
  EXPECT_EQ(plan.shapes[1].given.at("source"), 8);
  EXPECT_TRUE(plan.entries.contains("gradient.1"));
  std::string message = userError([&] { parsePlan(planWithShapes(448).dump(), "art"); });
  EXPECT_NE(message.find("\"edges.source.links\" inside the arena with each shape"),
            std::string::npos)
      << message;
}

// cuBLASLt requires that operands start at multiples of 64 bytes.
TEST(Plan, AlignsProducts) {
  Json plan = planWithProduct();
  Json launch = {{"launch", plan["kernels"].size() - 1}, {"arguments", {0, 64, 128}}};
  plan["entries"]["predict"].push_back(launch);
  parsePlan(plan.dump(), "art");
  plan["entries"]["predict"].back()["arguments"][1] = 68;
  std::string message = userError([&] { parsePlan(plan.dump(), "art"); });
  EXPECT_NE(message.find("a multiple of 64"), std::string::npos) << message;
}

TEST(Plan, RejectsInvalidJson) {
  std::string text = bigramPlan().dump();
  for (size_t length = 0; length < text.size(); length += 61) {
    EXPECT_NE(
        userError([&] { parsePlan(text.substr(0, length), "art"); }).find("text that is not JSON"),
        std::string::npos);
  }
}

} // namespace
