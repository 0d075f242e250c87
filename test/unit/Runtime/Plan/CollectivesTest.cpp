// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buckets of gradients and their exchanges in a plan. The table of probabilities of the plan is
// written by launch 2 of the entry `gradient`, and the bias after it by launch 3.
#include "Fixture.h"
#include "sluice/Support/Json.h"

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

Json exchange(int64_t bucket, const std::vector<int64_t> &after) {
  return {{"collective", "all_reduce"}, {"bucket", bucket}, {"after", after}};
}

/// Returns a plan whose entry `gradient` exchanges the bias and the table.
Json planWithCollectives() {
  Json plan = bigramPlan();
  plan["gradients"]["buckets"] = {0, 65536};
  plan["entries"]["gradient"].push_back(exchange(1, {3}));
  plan["entries"]["gradient"].push_back(exchange(0, {2}));
  return plan;
}

/// Inserts a collective before launch `position` of the entry `gradient`.
void insert(Json &plan, size_t position, const Json &collective) {
  Json &nodes = plan["entries"]["gradient"];
  nodes.insert(nodes.begin() + static_cast<int64_t>(position), collective);
}

TEST(Collectives, AreInTheOrderOfTheirLaunches) {
  Plan plan = parsePlan(planWithCollectives().dump(), "x");
  EXPECT_EQ(plan.buckets, (std::vector<int64_t>{0, 65536}));
  EXPECT_EQ(plan.entries.at("gradient").size(), 4u); // launches alone
  std::vector<Collective> all = plan.getCollectives("gradient");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].bucket, 1);
  EXPECT_EQ(all[0].position, 4u);
  EXPECT_EQ(all[0].after, (std::vector<int64_t>{3}));
  EXPECT_EQ(all[1].bucket, 0);
}

/// `after` of a launch counts launches alone.
TEST(Collectives, MayBeBetweenLaunches) {
  Json text = bigramPlan();
  insert(text, 3, exchange(0, {2}));
  text["entries"]["gradient"][4]["arguments"] = {69440, 320}; // no gradient
  text["entries"]["gradient"][4]["after"] = {2};
  Plan plan = parsePlan(text.dump(), "x");
  EXPECT_EQ(plan.getCollectives("gradient").front().position, 3u);
  EXPECT_EQ(plan.entries.at("gradient").back().after, (std::vector<int64_t>{2}));
}

TEST(Collectives, OfAnEarlierVersionAreAtTheEnd) {
  Plan plan = parsePlan(bigramPlan().dump(), "x");
  EXPECT_TRUE(plan.collectives.empty());
  std::vector<Collective> all = plan.getCollectives("gradient");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].position, 4u);
  EXPECT_EQ(all[0].bucket, 0);
}

struct WrongCollective {
  const char *name;
  void (*change)(Json &); ///< of `planWithCollectives`
  const char *message;
};

class CollectivesReject : public testing::TestWithParam<WrongCollective> {};

TEST_P(CollectivesReject, WithAMessage) {
  Json plan = planWithCollectives();
  GetParam().change(plan);
  std::string message = userError([&] { parsePlan(plan.dump(), "x"); });
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

const WrongCollective wrongCollectives[] = {
    {"BucketsThatDoNotRise", [](Json &p) { p["gradients"]["buckets"] = {0, 65536, 65536}; },
     "plan.gradients.buckets[2]: expected an integer from 65537 to 66047, found 65536"},
    {"BucketsThatDoNotBegin", [](Json &p) { p["gradients"]["buckets"] = {64, 65536}; },
     "plan.gradients.buckets[0]: expected an integer from 0 to 0, found 64"},
    {"BucketsBeyondTheGradients", [](Json &p) { p["gradients"]["buckets"] = {0, 66048}; },
     "plan.gradients.buckets[1]: expected an integer from 1 to 66047, found 66048"},
    {"BucketsBetweenLines", [](Json &p) { p["gradients"]["buckets"] = {0, 65532}; },
     "plan.gradients.buckets[1]: expected a multiple of 64, found 65532"},
    {"NoBucket", [](Json &p) { p["gradients"]["buckets"] = Json::array(); },
     "plan.gradients.buckets: expected at least one bucket, found none"},
    {"AnotherEntry", [](Json &p) { p["entries"]["update"].push_back(exchange(0, {})); },
     "expected collectives in the entry \"gradient\" alone, found one in \"update\""},
    {"AnotherKind", [](Json &p) { p["entries"]["gradient"][4]["collective"] = "broadcast"; },
     "plan.entries.gradient[4].collective: expected one of \"all_reduce\""},
    {"AnUnknownKey", [](Json &p) { p["entries"]["gradient"][4]["stream"] = 1; },
     "expected only keys that this version knows, found \"stream\""},
    {"AnUnknownBucket", [](Json &p) { p["entries"]["gradient"][4]["bucket"] = 2; },
     "plan.entries.gradient[4].bucket: expected an integer from 0 to 1, found 2"},
    {"ALaterLaunch", [](Json &p) { p["entries"]["gradient"][4]["after"] = {4}; },
     "plan.entries.gradient[4].after[0]: expected an integer from 0 to 3, found 4"},
    {"AscendingBuckets",
     [](Json &p) { std::swap(p["entries"]["gradient"][4], p["entries"]["gradient"][5]); },
     "the collective of bucket 1, as buckets are exchanged from the last to 0, found bucket 0"},
    {"ABucketTwice", [](Json &p) { p["entries"]["gradient"].push_back(exchange(0, {2})); },
     "a collective for each of the 2 buckets, found 3"},
    {"AMissingBucket", [](Json &p) { p["entries"]["gradient"].erase(5); },
     "a collective for each of the 2 buckets, found 1"},
    {"ABucketThatIsNotComplete",
     [](Json &p) {
       p["entries"]["gradient"].erase(4);
       insert(p, 3, exchange(1, {2}));
     },
     "the collective of bucket 1 after the launches that write the bucket or count segments, the "
     "first 4, found it after 3"},
    {"AFactorWithout",
     [](Json &p) {
       Json own = {{"gradient", bigramPlan()["entries"]["gradient"]},
                   {"evaluate", p["entries"]["evaluate"]},
                   {"predict", p["entries"]["predict"]}};
       p["factors"] = {{"main", 4}, {"entries", {{"2", own}}}};
     },
     "collectives in each entry of gradients, or in none, found none in \"gradient.2\" alone"},
};

INSTANTIATE_TEST_SUITE_P(Collectives, CollectivesReject, testing::ValuesIn(wrongCollectives),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
