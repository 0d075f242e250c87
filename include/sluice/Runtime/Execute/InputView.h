// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inputs of a plan in a device's arena, for the host to write.
#pragma once

#include "sluice/Runtime/Data/Inputs.h"
#include "sluice/Runtime/Execute/ArenaView.h"

#include <initializer_list>
#include <vector>

namespace sluice::runtime {

/// The plan's input that excludes rows from all losses.
inline const std::string paddingName = "tokens.padding";
/// The plan's input with the line of each row of generation.
inline const std::string linesName = "take.line";
/// The plan's input with the number of rows of each line.
inline const std::string lengthsName = "tokens.count";

class InputView : public ArenaView {
public:
  using ArenaView::ArenaView;

  /// Returns `tokens` [batch, context + 1], row-major, for the host to write. The next `run` of an
  /// entry that reads tokens uses its values at that time. Throws UserError if the plan's input has
  /// another shape.
  std::span<int32_t> tokens();
  /// Returns `tokens` and the named inputs, for the host to write likewise.
  BatchInputs inputs();
  /// Returns `prompt` [context + 1], for the host to write before `prefill`. This and the next two
  /// functions throw UserError if the plan has no such input.
  std::span<int32_t> prompt();
  /// Returns the named inputs of `prompt`, one row.
  BatchInputs promptInputs();
  /// Returns `take.line` [rows of generation], the line that each row of generation reads:
  /// `prefill` stores the results of named inputs at the line of its row, and `step` reads them
  /// there. Row r has line r until the host writes another number, below the number of rows. Empty
  /// if no step reads named inputs, and for artifacts of earlier versions, which store them by row.
  std::span<int32_t> lines();
  /// Assigns to each row of generation the line of the same number.
  void resetLines();
  /// Returns the number of tokens of a named input for each line. The host writes it before `step`.
  /// Empty if no step reads the input's rows: it may read rows made of them alone.
  std::span<int64_t> textCounts(const std::string &name);
  /// Returns `text` [rows of generation, context + 1], row-major: the tokens that each row has
  /// read. The host appends the next token before `step`.
  std::span<int32_t> text();
  /// Returns `take` [rows of generation], for the host to write before `prefill` (the number of
  /// prompt tokens for the one row that reads the prompt; -1: its named inputs only), `step` (1:
  /// append the row's next token) and `reset` (1: clear the row). 0 leaves a row unchanged.
  std::span<int64_t> take();

protected:
  /// Uploads the inputs that an entry reads.
  void sendInputs(const std::string &entry);

private:
  const Region &input(const std::string &name, Type type,
                      std::initializer_list<int64_t> shape) const;
  std::span<int32_t> tokensIn(const std::string &name, int64_t rows);
  std::span<int64_t> countsIn(const std::string &name, int64_t rows);
  std::map<std::string, BatchInputs::Given> givenIn(const std::string &prefix, int64_t rows);
  std::map<std::string, BatchInputs::EdgeLists> edgesIn(const std::string &prefix, int64_t rows);

  /// Returns the counts of a named input, which the plan does not have if no launch reads them: a
  /// prompt's where no layer before a state reads the input, a text's where no layer of the tokens
  /// does.
  std::span<int64_t> givenCounts(const std::string &name, int64_t rows);

  std::map<std::string, std::vector<int64_t>> unreadCounts; ///< by name, for the host to write
};

} // namespace sluice::runtime
