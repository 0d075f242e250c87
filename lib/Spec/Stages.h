// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Readers of the parts of a spec. All throw Failure.

#ifndef SLUICE_LIB_SPEC_STAGES_H
#define SLUICE_LIB_SPEC_STAGES_H

#include "Fields.h"
#include "sluice/Spec/Expansion.h"

#include <functional>

namespace sluice::spec {

/// The keys that `defaults`, `layer`, `layers` and `hourglass` have in common.
const std::vector<std::string_view> &layerKeys();

/// Layer settings of a stage of a model `width` features wide.
Layer readLayer(const Fields &fields, int64_t width);

/// The value of `mask`, causal where there is none.
Mask readMask(const Fields &fields);

/// "block" and "start", as of a mask that is a block.
Mask readBlock(const Fields &fields);
/// Groups of heads: of "scales", and of "over" where it is a list, whose masks are `mask` where
/// they have none.
std::vector<HeadGroup> readScales(const Fields &fields);
std::vector<HeadGroup> readSources(const Fields &fields, const Mask &mask);

/// Heads are in equal groups; the key `cause` made them.
void checkGroups(const Fields &fields, std::string_view cause, const Layer &layer);
/// What a stage that gives groups of heads keys of their own cannot have.
void checkScoresOfGroups(const Fields &fields, std::string_view cause, const Layer &layer);

/// Checks types and ranges of `defaults`, which need not be complete or fit the width.
void checkDefaults(const Fields &fields);

/// `norm` and `epsilon`.
Norm readNorm(const Fields &fields);

/// The value of `hierarchy`: "2@1 8@4 2@1", and the factors that levels such as 8@{2,3} draw from.
std::vector<Hourglass::Level> readHierarchy(const Fields &fields, std::vector<int64_t> &factors);
/// Levels that draw a factor have this one.
void setFactor(std::vector<Hourglass::Level> &levels, int64_t factor);
/// The same from fine to coarse: "9@1 9@4 8@16".
std::vector<Hourglass::Level> readRisingHierarchy(const Fields &fields);

/// The value of `hierarchy` of a `top_down`: "2@16 4@4 8@1".
std::vector<Hourglass::Level> readFallingHierarchy(const Fields &fields);

/// "none" and the activations of one number, which a `project` stage may have.
const std::vector<std::string_view> &projectionNames();
/// One of them; nothing for "none".
std::optional<Activation> readProjection(const Fields &fields, std::string_view key);
/// Whether `start` says that the first rows of a shift, `by` rows where that is known, are learned.
bool readStart(const Fields &fields, std::optional<int64_t> by);
/// How specs spell methods of one linear map or none.
Names<Shortening> shortenMethods();
Shortening readShortening(const Fields &fields, std::string_view key);
/// The value of "shorten_window"; none where the stage has none.
std::optional<int64_t> readShortenWindow(const Fields &fields);
Upsampling readUpsampling(const Fields &fields, std::string_view key);

/// Names that are words and no names of functions, scales and places of a plan.
bool isInputName(std::string_view name);

Embedding readEmbedding(const Fields &fields);

[[noreturn]] inline void refuseAt(const SourceLocation &location, const std::string &message) {
  throw Failure{{location, message}};
}

/// A boundaries stage of a model of `context` tokens a row.
Boundaries readBoundaries(const Fields &fields, int64_t context);

/// The value of a stage's "segments"; empty where it has none.
std::string namedSegments(const Settings &settings);
/// Whether a stage that reads `input`, "the result of ...", fits its segments and those that it
/// names, which the stage `cut` makes; null: no stage before does. A row of `input`, or of what its
/// segments cut in the end, has so many `tokens`.
void checkSegments(const Stage &stage, const Primitive &input, const std::string &described,
                   const Primitive *cut, int64_t tokens);

Attend readAttend(const Fields &fields);
/// The settings of an `attend` stage that reads `input` and `over`, `described` both: which of them
/// has queries, and the columns of a head. `cut` makes the segments; null: no stage before does.
Attend settleAttend(const Stage &stage, const Primitive &input, const Primitive &over,
                    const std::string &described, const Primitive *cut);

/// Whether the document's end of a stage that cuts the segments `outer` makes, null of tokens, is a
/// token of the vocabulary, and one that these segments end at too.
void checkDocumentEnd(const Stage &stage, const Primitive &input, const std::string &described,
                      const Boundaries *outer);

/// Refuses boundaries by the entropy of what is no loss of the tokens' scale: `asked`, null where
/// none has the name. One that follows the stage gives labels alone.
void checkEntropy(const Stage &stage, const Primitive &input, const std::string &described,
                  const Primitive *asked, bool follows);

TopDown readTopDown(const Fields &fields, int64_t width);

/// Appends a stage of a composite one: its settings, prefix, place, and the ids of what it reads.
/// Returns its id.
using AppendStage =
    std::function<int64_t(Settings settings, std::string prefix, const SourceLocation &place,
                          int64_t input, int64_t second)>;

/// Appends the stages of a `top_down` that reads stream `input`, of a scale of `factor`. Returns
/// the id of the last one's result.
int64_t expandTopDown(const Stage &stage, int64_t input, int64_t factor, const AppendStage &append);

/// Tokens that must stand before the first row of a `top_down` that reads a scale of `factor`: rows
/// before it have no group of the coarsest scale.
int64_t tokensBefore(const TopDown &topDown, int64_t factor);

/// The stages of a composite one that reads a stream of `width` (Composites.cpp). Throw Failure.
using Compose = std::vector<Stage>(const Fields &fields, const Fields *defaults, int64_t width,
                                   int64_t context);
Compose composeDynamic, composeMegabyte, composeBlockTransformer, composeSpaceByte, composeHnet,
    composeBlt;

/// A stage but for its `prefix`. `defaults` may be null.
Stage readStage(const JsonValue &value, const std::string &file, const Fields *defaults,
                int64_t width, int64_t context);

Training readTraining(const Fields &fields);

/// Where a group of a layer's heads reads what is not there, or nothing. Throws Failure.
void checkSources(const Primitive &layer, const std::vector<Primitive> &primitives);

/// Refuses attention by hashes of what are no rows of tokens, and a window in tokens of what has no
/// constant number of them.
void checkRows(const Primitive &layer);

/// What reading checks on the expanded model: streams, scales, size. Throws Failure.
void checkExpansion(const Model &model);
/// The same at every factor that is drawn, and that weights fit all of them. Throws Failure.
void checkVariants(const Model &model);

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_STAGES_H
