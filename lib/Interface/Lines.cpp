// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the C interface that open lines with named inputs, score them and compute logits.
#include "Lines.h"

#include "Compute.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Execute/Predictions.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace sluice;
using namespace sluice::interface;
using namespace sluice::runtime;

namespace {

/// The path of the text in memory; inputs have "inputs." and their names.
const std::string textPath = "tokens";

/// The caller's lines of the text or of an input.
struct List {
  std::string path;
  std::span<const int32_t> ids;
  std::span<const int64_t> ends;
  bool arePairs = false;
  bool isFile = false; ///< `path` is a file, which has the lines

  int64_t count() const { return std::ssize(ends); }
  std::span<const int32_t> line(int64_t index) const {
    auto at = static_cast<size_t>(index);
    auto start = static_cast<size_t>(at == 0 ? 0 : ends[at - 1]);
    return ids.subspan(start, static_cast<size_t>(ends[at]) - start);
  }
  /// Returns the place of a line for messages, with lines from 1: "inputs.source:3: ".
  std::string place(int64_t index) const { return path + ":" + std::to_string(index + 1) + ": "; }
};

List readList(const sluice_line_list &given) {
  List list{given.name ? std::string("inputs.") + given.name : textPath, {}, {}};
  if (given.path) {
    if (given.ids || given.ends || given.count != 0) {
      throw UserError(list.path + ": expected a file or an array, found both; give one of them");
    }
    list.isFile = true;
    bool isLikeArray =
        given.path == textPath || std::string_view(given.path).starts_with("inputs.");
    list.path = isLikeArray ? std::string("./") + given.path : given.path;
    return list;
  }
  if (given.count < 1) {
    throw UserError(list.path + ": expected at least one line, found " +
                    std::to_string(given.count) + "; give the lines of a text or of an input");
  }
  require(given.ends, "ends");
  list.ends = {given.ends, static_cast<size_t>(given.count)};
  int64_t last = 0;
  for (int64_t i = 0; i < list.count(); ++i) {
    int64_t end = list.ends[static_cast<size_t>(i)];
    if (end < last) {
      throw UserError(list.place(i) + "expected an end of at least " + std::to_string(last) +
                      ", the end of the line before, found " + std::to_string(end) +
                      "; give the number of ids up to the end of each line");
    }
    last = end;
  }
  if (last > 0) {
    require(given.ids, "ids");
  }
  list.ids = {given.ids, static_cast<size_t>(last)};
  list.arePairs = given.are_pairs != 0;
  return list;
}

/// Returns the caller's lists, by name; "" is the text.
std::map<std::string, List> readLists(const sluice_line_list *given, int64_t count) {
  std::map<std::string, List> lists;
  if (count < 1) {
    throw UserError("lists: expected the lines of at least one input, found " +
                    std::to_string(count) + " lists; give the lines of each input");
  }
  require(given, "list");
  const auto *at = reinterpret_cast<const char *>(given);
  for (int64_t i = 0; i < count; ++i, at += given->size) { // as large as the caller's
    sluice_line_list list = readOptions(reinterpret_cast<const sluice_line_list *>(at));
    if (list.name && !*list.name) {
      throw UserError(
          "inputs: expected the name of an input, found an empty one; NULL is the text");
    }
    if (!lists.emplace(list.name ? list.name : "", readList(list)).second) {
      throw UserError("lists: expected each input once, found \"" +
                      std::string(list.name ? list.name : textPath) + "\" twice; join its lines");
    }
  }
  return lists;
}

void requireNames(const Plan &plan, const std::map<std::string, List> &lists) {
  std::vector<EdgeInput> edges = getEdgeInputs(plan);
  std::set<std::string> needed;
  std::string known;
  auto need = [&](const std::string &name) {
    needed.insert(name);
    known += (known.empty() ? "\"" : ", \"") + name + "\"";
  };
  for (const auto &[name, input] : plan.given) {
    if (!isComputed(input)) {
      need(name);
    }
  }
  for (const EdgeInput &each : edges) {
    if (each.pattern.empty()) {
      need(each.name);
    }
  }
  for (const auto &[name, list] : lists) {
    if (name.empty() || needed.contains(name)) {
      continue;
    }
    bool isInput = plan.given.contains(name) ||
                   std::ranges::find(edges, name, &EdgeInput::name) != edges.end();
    throw UserError("inputs: expected lines of " + known + ", found \"" + name + "\"" +
                    (isInput ? ", which follows from other inputs; leave it out"
                             : "; name an input of the model"));
  }
  for (const std::string &name : needed) {
    if (!lists.contains(name)) {
      throw UserError("inputs: expected lines of " + known + ", found none of \"" + name +
                      "\"; give a line for each line of the text");
    }
  }
}

/// Returns a file in memory.
template <typename Numbers> ByteFile makeFile(const std::string &path, const Numbers &numbers) {
  std::vector<uint8_t> bytes(numbers.size() * sizeof(numbers[0]));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return {path, FileContents(std::move(bytes))};
}

/// Returns lines of the ids of an axis, each of which `lineEnd` ends.
ByteFile makeIds(const List &list, int64_t vocabulary, int32_t lineEnd) {
  std::vector<int32_t> ids;
  ids.reserve(list.ids.size() + list.ends.size());
  for (int64_t i = 0; i < list.count(); ++i) {
    std::span<const int32_t> line = list.line(i);
    if (line.empty()) {
      throw UserError(list.place(i) + "expected a line of at least one id, found an empty one; " +
                      "leave the line out of the text and of all inputs");
    }
    auto wrong = std::ranges::find_if(
        line, [&](int32_t id) { return id < 0 || id >= vocabulary || id == lineEnd; });
    if (wrong != line.end()) {
      bool isEnd = *wrong == lineEnd;
      throw UserError(list.place(i) + "expected ids from 0 to " + std::to_string(vocabulary - 1) +
                      (isEnd ? " without the id that ends lines" : "") + ", found " +
                      std::to_string(*wrong) + " at index " + std::to_string(wrong - line.begin()) +
                      (isEnd ? "; cut the text there, or give another line_end"
                             : "; encode the line for this model"));
    }
    ids.insert(ids.end(), line.begin(), line.end());
    ids.push_back(lineEnd);
  }
  ByteFile file = makeFile(list.path, ids);
  file.layout.type = TokenType::Int32;
  return file;
}

/// Returns lines of text as SideStream reads them: an id for each token of another input.
ByteFile makeStream(const List &list, const GivenInput &input) {
  constexpr int64_t digitValues = 10; // see SideStream
  std::string text;
  for (int64_t i = 0; i < list.count(); ++i) {
    std::span<const int32_t> line = list.line(i);
    for (size_t p = 0; p < line.size(); ++p) {
      if (line[p] < 0 || line[p] >= input.vocabulary) {
        throw UserError(list.place(i) + "expected ids from 0 to " +
                        std::to_string(input.vocabulary - 1) + ", found " +
                        std::to_string(line[p]) + " at index " + std::to_string(p) +
                        "; give one for each token of \"" + input.on + "\"");
      }
      text += (p > 0 && input.vocabulary > digitValues ? " " : "") + std::to_string(line[p]);
    }
    text += '\n';
  }
  return makeFile(list.path, text);
}

/// Returns lines of text as EdgeLines reads them.
ByteFile makeEdges(const List &list) {
  std::string text;
  for (int64_t i = 0; i < list.count(); ++i) {
    std::span<const int32_t> line = list.line(i);
    if (line.size() % 2 != 0) {
      throw UserError(list.place(i) +
                      "expected pairs of numbers, the two ends of each edge, found " +
                      std::to_string(line.size()) + " numbers; give both ends of each");
    }
    for (size_t p = 0; p < line.size(); p += 2) {
      if (line[p] < 0 || line[p + 1] < 0 || line[p] == line[p + 1]) {
        throw UserError(list.place(i) + "expected edges between two different numbers from 0, " +
                        "found " + std::to_string(line[p]) + " and " + std::to_string(line[p + 1]) +
                        "; correct the edge");
      }
      text += (p > 0 ? " " : "") + std::to_string(line[p]) + "-" + std::to_string(line[p + 1]);
    }
    text += '\n';
  }
  return makeFile(list.path, text);
}

void requireLineEnd(const Plan &plan, int32_t lineEnd) {
  if (lineEnd < 0 || lineEnd >= plan.model.vocabulary) {
    throw UserError("line_end: expected an id of the vocabulary, from 0 to " +
                    std::to_string(plan.model.vocabulary - 1) + ", found " +
                    std::to_string(lineEnd) +
                    "; give 10 for bytes, or the tokenizer's id of a newline");
  }
  for (const auto &[name, input] : plan.given) {
    if (input.rule == "whitespace" && lineEnd != '\n') {
      throw UserError("line_end: expected 10, as the input \"" + name +
                      "\" has the rule \"whitespace\" of bytes, found " + std::to_string(lineEnd) +
                      "; use the rule \"file\" in the spec");
    }
    if (input.rule == "pieces") {
      throw UserError("inputs: expected a model whose inputs follow from ids, found \"" + name +
                      "\" with the rule \"pieces\" of a tokenizer; use the command line, or the "
                      "rule \"file\" in the spec");
    }
  }
}

/// Returns the texts in memory, with the paths `InputLines` reads.
std::pair<InputFiles, ReadingOptions>
makeFiles(const Plan &plan, const std::map<std::string, List> &lists, int32_t lineEnd) {
  InputFiles files;
  ReadingOptions reading;
  reading.lineEnd = lineEnd;
  const List *first = nullptr; // array
  for (const auto &[name, list] : lists) {
    if (!name.empty()) {
      files[name] = {list.path};
    }
    if (list.isFile) {
      continue; // the readers compare its lines
    }
    first = first ? first : &list;
    if (list.count() != first->count()) {
      throw UserError(list.path + ": expected as many lines as " + first->path + " has, " +
                      std::to_string(first->count()) + ", found " + std::to_string(list.count()) +
                      "; line i of the one belongs to line i of the other");
    }
    auto given = plan.given.find(name);
    bool hasAxis = name.empty() || (given != plan.given.end() && given->second.on.empty());
    if (!list.ids.empty() && list.arePairs != (!hasAxis && given == plan.given.end())) {
      throw UserError(
          list.path + ": expected " +
          (list.arePairs ? "ids of tokens, found pairs" : "pairs of numbers, found ids") +
          "; edges have pairs, and other inputs one id for each token");
    }
    reading.memory.emplace(
        list.path,
        hasAxis ? makeIds(list, name.empty() ? plan.model.vocabulary : given->second.vocabulary,
                          lineEnd)
        : given != plan.given.end() ? makeStream(list, given->second)
                                    : makeEdges(list));
  }
  return {std::move(files), std::move(reading)};
}

void requireOwn(const LoadedModel &state, const sluice_lines *lines) {
  require(lines, "lines");
  if (lines->state.get() != &state) {
    throw UserError("lines: expected lines that were opened for this model, found lines of "
                    "another; open them for each model");
  }
}

} // namespace

void interface::requireLines(const LoadedModel &state) {
  if (state.plan().given.empty()) {
    throw UserError("inputs: expected a model with named inputs of lines, found one whose only "
                    "input is its tokens; leave the inputs out");
  }
}

const LinePairs &interface::requirePairs(const LoadedModel &state, const sluice_lines *lines) {
  requireOwn(state, lines);
  if (!lines->pairs) {
    throw UserError("lines: expected the lines of a text and of its inputs, found inputs alone; "
                    "give the text, a list without a name");
  }
  return *lines->pairs;
}

const InputLines &interface::requireInputLines(const LoadedModel &state,
                                               const sluice_lines *lines) {
  requireOwn(state, lines);
  if (!lines->inputs) {
    throw UserError("lines: expected the lines of inputs alone, for which a text is generated, "
                    "found a text too; leave the text out");
  }
  return *lines->inputs;
}

std::vector<int64_t> interface::readNumbers(const LoadedModel &state, const LinePairs &pairs,
                                            const int64_t *numbers, int64_t rows) {
  if (!state.plan().shapes.empty()) {
    throw UserError(
        "tokens: expected files of lines for a model whose batches have lines of similar "
        "lengths, found arrays; open files with sluice_open_data, give paths in Python, "
        "or compile the spec without \"batch_tokens\"");
  }
  int64_t expected = state.rowsOfStep(), lines = pairs.rowsPerEpoch();
  if (rows != expected || (!numbers && lines < rows)) {
    throw UserError(
        "tokens: expected " + std::to_string(expected) + " lines, the rows of a step, found " +
        std::to_string(rows != expected ? rows : lines) + "; give as many lines for each step");
  }
  std::vector<int64_t> list(static_cast<size_t>(rows));
  if (!numbers) {
    std::iota(list.begin(), list.end(), 0);
    return list;
  }
  list.assign(numbers, numbers + rows);
  for (int64_t number : list) {
    if (number < 0 || number >= lines) {
      throw UserError("numbers: expected numbers of lines from 0 to " + std::to_string(lines - 1) +
                      ", found " + std::to_string(number) + "; number the lines from 0");
    }
  }
  return list;
}

sluice_status sluice_open_lines(sluice_model *model, const sluice_line_list *list, int64_t lists,
                                int32_t lineEnd, sluice_lines **lines) {
  return guardModel(model, [&](LoadedModel &state) {
    require(lines, "lines");
    const Plan &plan = state.plan();
    requireLines(state);
    std::map<std::string, List> given = readLists(list, lists);
    requireNames(plan, given);
    requireLineEnd(plan, lineEnd);
    auto [files, reading] = makeFiles(plan, given, lineEnd);
    auto opened = std::make_unique<sluice_lines>();
    opened->state = model->state;
    opened->lineEnd = lineEnd;
    if (given.contains("")) {
      opened->pairs = std::make_unique<LinePairs>(std::vector<Path>{given.at("").path}, files, plan,
                                                  static_cast<uint64_t>(state.seed), reading);
    } else {
      opened->inputs = std::make_unique<InputLines>(files, plan, reading);
      opened->inputs->count(); // checks that they are equal
    }
    *lines = opened.release();
  });
}

void sluice_free_lines(sluice_lines *lines) {
  if (lines && lines->state->isOwn()) {
    delete lines;
  }
}

sluice_status sluice_describe_lines(sluice_lines *lines, char **notes) {
  return guard([&] {
    require(lines, "lines");
    require(notes, "notes");
    std::vector<std::string> list;
    if (lines->pairs) {
      list = lines->pairs->notes();
    } else {
      for (const auto &[name, own] : lines->inputs->byName()) {
        list.push_back(own.describeCut("the input " + name));
      }
    }
    *notes = copyNotes(list);
  });
}

sluice_status sluice_order_lines(sluice_model *model, int64_t count, int64_t first, int64_t rows,
                                 int64_t *line) {
  return guardModel(model, [&](LoadedModel &state) {
    for (auto [name, value, least] :
         {std::tuple("count", count, 1), {"first", first, 0}, {"rows", rows, 0}}) {
      if (value < least) {
        throw UserError(std::string(name) + ": expected a number of at least " +
                        std::to_string(least) + ", found " + std::to_string(value) +
                        "; give another");
      }
    }
    requireRange(first, rows);
    if (rows > 0) {
      require(line, "line");
    }
    for (int64_t i = 0; i < rows; ++i) { // as ItemSource::fill does
      uint64_t key = getEpochKey(static_cast<uint64_t>(state.seed), (first + i) / count);
      line[i] = static_cast<int64_t>(
          permute(static_cast<uint64_t>((first + i) % count), static_cast<uint64_t>(count), key));
    }
  });
}

sluice_status sluice_evaluate_lines(sluice_model *model, sluice_lines *lines,
                                    sluice_evaluation *evaluation) {
  return guardModel(model, [&](LoadedModel &state) {
    const LinePairs &pairs = requirePairs(state, lines);
    reportEvaluation(state, evaluation, [&](const EvaluationOptions &options) {
      for (auto [name, value] : {std::pair("window", options.window), {"stride", options.stride}}) {
        if (value != 0) {
          throw UserError(std::string(name) +
                          ": expected 0 for lines, which are scored one by one, found " +
                          std::to_string(value) + "; leave it out");
        }
      }
      return evaluateItems(state.executor(), pairs, {}, [](double) { endIfInterrupted(); });
    });
  });
}

sluice_status sluice_count_line_rows(sluice_model *model, sluice_lines *lines, int64_t *rows) {
  return guardModel(model, [&](LoadedModel &state) {
    require(rows, "rows");
    *rows = countItemRows(state.executor(), requirePairs(state, lines));
  });
}

sluice_status sluice_compute_line_logits(sluice_model *model, sluice_lines *lines, float *logits) {
  return guardModel(model, [&](LoadedModel &state) {
    require(logits, "logits");
    checkPredicts(state.plan(), state.executor().artifact().path());
    const LinePairs &pairs = requirePairs(state, lines);
    float *at = logits;
    computeItemLogits(
        state.openLogits(), pairs,
        [&](std::span<const float> row) { at = std::ranges::copy(row, at).out; },
        [](double) { endIfInterrupted(); });
  });
}
