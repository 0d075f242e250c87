// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Execute/Predictions.h"

#include "BatchNumbers.h"
#include "sluice/Runtime/Processes/ProcessGroup.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>

namespace sluice::runtime {
namespace {

/// Rows [first, last) of a result of `predict`.
struct PredictedRows {
  int64_t first = 0, last = 0;
};

/// Writes the inputs of a prediction and returns the rows that it yields.
using PredictionInput = std::function<PredictedRows(int64_t index)>;

/// Passes a row on. Throws JobError if a number is not finite.
void pass(std::span<const float> row, const NumberSink &rows) {
  if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) {
    throw JobError("what the model computes is not finite; use the weights of an earlier "
                   "checkpoint");
  }
  rows(row);
}

/// Passes the rows of the prediction of each process, in the order of the ranks, to `rows` on rank
/// 0. It receives them one prediction at a time, as their logits may need much memory. `ranges` are
/// the rows of each.
void passInOrder(Executor &executor, std::span<const PredictedRows> ranges, ProcessGroup *group,
                 const NumberSink &rows) {
  int64_t own = group ? group->rank() : 0;
  if (own == 0) {
    for (int64_t row = ranges.front().first; row < ranges.front().last; ++row) {
      pass(executor.outputRow("logits", row), rows);
    }
  }
  auto width = static_cast<size_t>(executor.plan().outputs.at("logits").shape.at(1));
  for (int64_t rank = 1; rank < std::ssize(ranges); ++rank) {
    group->agree();
    if (own != 0 && own != rank) {
      continue;
    }
    const PredictedRows &range = ranges[static_cast<size_t>(rank)];
    std::vector<float> numbers(static_cast<size_t>(range.last - range.first) * width);
    std::span<uint8_t> bytes(reinterpret_cast<uint8_t *>(numbers.data()),
                             numbers.size() * sizeof(float));
    if (own == rank) {
      auto into = numbers.begin();
      for (int64_t row = range.first; row < range.last; ++row) {
        into = std::ranges::copy(executor.outputRow("logits", row).first(width), into).out;
      }
      group->exchange(std::vector<ProcessGroup::Outgoing>{{0, bytes}}, {});
      continue;
    }
    group->exchange({}, std::vector<ProcessGroup::Incoming>{{rank, bytes}});
    for (size_t at = 0; at < numbers.size(); at += width) {
      pass(std::span(numbers).subspan(at, width), rows);
    }
  }
}

/// Runs `count` predictions, of P processes each every P-th, and passes their rows to `rows` on
/// rank 0, in order.
void predictEach(Executor &executor, int64_t count, ProcessGroup *group,
                 const PredictionInput &write, const NumberSink &rows,
                 const std::function<void(double)> &progress) {
  int64_t own = group ? group->rank() : 0;
  for (int64_t first = 0; first < count;) {
    auto shares = static_cast<int64_t>(countShares(group));
    std::vector<PredictedRows> ranges(static_cast<size_t>(std::min(shares, count - first)));
    for (int64_t i = 0; i < std::ssize(ranges); ++i) {
      ranges[static_cast<size_t>(i)] = write(first + i);
    }
    if (own < std::ssize(ranges)) {
      if (own + 1 < std::ssize(ranges)) { // the inputs of another prediction were written after it
        write(first + own);
      }
      executor.run("predict");
    }
    passInOrder(executor, ranges, group, rows);
    first += std::ssize(ranges);
    if (progress) {
      progress(static_cast<double>(first) / static_cast<double>(count));
    }
  }
}

/// Writes a window of one file to the inputs of the model.
void writeWindow(Executor &executor, const ByteFile &file, const Window &window) {
  file.readTokens(window.start, executor.tokens().first(static_cast<size_t>(window.length)));
  executor.scalarI64("length") = window.length;
  executor.scalarI64("rows") = 1;
}

} // namespace

void computeLogits(Executor &executor, const ByteFile &file, const EvaluationOptions &given,
                   const NumberSink &rows, const std::function<void(double)> &progress) {
  EvaluationOptions options = completeOptions(given, executor.plan().model);
  // Cuts windows as if one more token followed, which the last row predicts and no row reads.
  std::vector<Window> windows = cutWindows(file.tokenCount() + 1, options.window, options.stride);
  auto write = [&](int64_t index) {
    const Window &window = windows[static_cast<size_t>(index)];
    writeWindow(executor, file, window);
    return PredictedRows{window.firstScored, window.length};
  };
  predictEach(executor, std::ssize(windows), options.group, write, rows, progress);
}

void computeItemLogits(Executor &executor, const ItemSource &source, const NumberSink &rows,
                       const std::function<void(double)> &progress, ProcessGroup *group) {
  auto write = [&](int64_t item) {
    int64_t length = source.write(item, 0, executor.inputs());
    executor.scalarI64("length") = length;
    executor.scalarI64("rows") = 1;
    return PredictedRows{0, length};
  };
  predictEach(executor, source.rowsPerEpoch(), group, write, rows, progress);
}

int64_t countItemRows(Executor &executor, const ItemSource &source) {
  int64_t rows = 0;
  for (int64_t item = 0; item < source.rowsPerEpoch(); ++item) {
    rows += source.write(item, 0, executor.inputs());
  }
  return rows;
}

void computeRows(Executor &executor, const ByteFile &file, int64_t factor, const NumberSink &rows,
                 const std::function<void(double)> &progress, ProcessGroup *group) {
  int64_t context = executor.plan().model.context, size = file.tokenCount();
  auto write = [&](int64_t index) {
    int64_t start = index * context;
    Window window{start, std::min(context, size - start), 0};
    writeWindow(executor, file, window);
    return PredictedRows{0, countRows(window.length, context, factor)};
  };
  predictEach(executor, (size + context - 1) / context, group, write, rows, progress);
}

int64_t countRows(int64_t tokens, int64_t context, int64_t factor) {
  auto countScaleRows = [&](int64_t length) { return (length + factor - 1) / factor; };
  return tokens / context * countScaleRows(context) + countScaleRows(tokens % context);
}

} // namespace sluice::runtime
