// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embeddings: of tokens, of their places, and of the last tokens together.
#include "Stages.h"

namespace sluice::spec {
namespace {

/// Sizes that rise, and how many rows a table has. An input's axis delays nothing.
void readNgrams(const Fields &fields, Embedding &embedding) {
  constexpr int64_t mostTokens = 16, mostRows = int64_t{1} << 24;
  constexpr std::string_view type = "a list of rising integers from 2 to 16";
  embedding.ngramRows = fields.integer("ngram_rows", {1, mostRows}, 65536);
  const JsonValue *sizes = fields.find("ngrams");
  for (std::string_view key : {"ngram_rows", "document_end"}) {
    if (!sizes && fields.find(key)) {
      fields.fail(fields.position(key), "expected " + quote(key) +
                                            " only beside \"ngrams\", found "
                                            "it alone; give \"ngrams\", or leave it out");
    }
  }
  if (fields.find("document_end")) {
    embedding.documentEnd = fields.integer("document_end", {0});
  }
  if (sizes && (sizes->kind != JsonKind::Array || sizes->items.empty())) {
    fields.mismatch(*sizes, "ngrams", type);
  }
  for (const JsonValue &size : sizes ? sizes->items : std::vector<JsonValue>()) {
    int64_t tokens = fields.integerAt(size, "ngrams", {2, mostTokens});
    if (!embedding.ngrams.empty() && tokens <= embedding.ngrams.back()) {
      fields.fail(size.position, "expected " + std::string(type) + " for \"ngrams\", found " +
                                     std::to_string(tokens) + " behind " +
                                     std::to_string(embedding.ngrams.back()));
    }
    embedding.ngrams.push_back(tokens);
  }
  if (!embedding.ngrams.empty() && !embedding.input.empty()) {
    fields.fail(fields.position("ngrams"),
                "expected no \"ngrams\" in the embedding of an input, on whose axis nothing is "
                "delayed, found both; leave them out");
  }
}

} // namespace

Embedding readEmbedding(const Fields &fields) {
  Embedding embedding;
  embedding.input = fields.text("input", "");
  embedding.positions = fields.choice<Positions>("positions",
                                                 {{"none", Positions::None},
                                                  {"learned", Positions::Learned},
                                                  {"sinusoidal", Positions::Sinusoidal}},
                                                 Positions::None);
  embedding.dropout = fields.number("dropout", probability, 0);
  readNgrams(fields, embedding);
  return embedding;
}

} // namespace sluice::spec
