// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Record.h"

#include "sluice/Support/Error.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>
#include <new>
#include <system_error>
#include <utility>

namespace sluice::interface {
namespace {

/// The last error of a thread, with its strings.
struct Record {
  sluice_error error{};
  std::string message;
  MessageParts parts;
};

Record &lastRecord() {
  thread_local Record record;
  return record;
}

struct Interrupt {
  int (*ends)(void *data) = nullptr;
  void *data = nullptr;
};
thread_local Interrupt interrupt;

sluice_status record(sluice_status status, const std::string &message,
                     const CausalVerdict *verdict = nullptr) {
  std::string text = renameFlags(message);
  MessageParts parts = splitMessage(text);
  if (verdict && verdict->place.line > 0) {
    parts.file = verdict->place.file;
    parts.line = verdict->place.line;
    parts.column = verdict->place.column;
  }
  if (verdict) {
    parts.expected = "a spec that is proved causal";
    parts.found = verdict->message.substr(0, verdict->message.size() - verdict->remedy.size());
    parts.remedy = verdict->fix              ? verdict->fix->words
                   : !verdict->noFix.empty() ? verdict->noFix
                   : verdict->remedy.empty() ? "change the stage at fault"
                                             : verdict->remedy.substr(2); // after "; "
  }
  // Nothing allocates from here on: `error` never points to the strings of an earlier failure.
  Record &last = lastRecord();
  last.message = std::move(text);
  last.parts = std::move(parts);
  const CausalWitness *witness = verdict && verdict->witness ? &*verdict->witness : nullptr;
  last.error = {status,
                last.message.c_str(),
                last.parts.file.c_str(),
                last.parts.line,
                last.parts.column,
                last.parts.expected.c_str(),
                last.parts.found.c_str(),
                last.parts.remedy.c_str(),
                witness ? witness->length : -1,
                witness ? witness->row : -1,
                witness ? witness->token : -1};
  return status;
}

/// Removes ":NUMBER" at the end of `text`, and returns the number; 0 if there is none.
int64_t takeNumber(std::string &text) {
  size_t colon = text.rfind(':');
  int64_t number = 0;
  if (colon == std::string::npos || colon + 1 == text.size()) {
    return 0;
  }
  const char *end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data() + colon + 1, end, number);
  if (error != std::errc() || rest != end) {
    return 0;
  }
  text.resize(colon);
  return number;
}

/// Names of arguments, which begin the messages about them. Another name before a message is a
/// file.
constexpr std::string_view argumentNames[] = {"allow_leak",
                                              "beam",
                                              "capacity",
                                              "count",
                                              "cpu_target",
                                              "data",
                                              "device",
                                              "elements",
                                              "end",
                                              "first",
                                              "generation_rows",
                                              "ids",
                                              "images",
                                              "in_order",
                                              "index",
                                              "inputs",
                                              "is_held_out",
                                              "labels",
                                              "length_penalty",
                                              "lengths",
                                              "line",
                                              "line_end",
                                              "lines",
                                              "lists",
                                              "memory_budget",
                                              "min_p",
                                              "min_tokens",
                                              "name",
                                              "no_cache",
                                              "no_repeat",
                                              "numbers",
                                              "position",
                                              "precision",
                                              "prompt",
                                              "repetition_penalty",
                                              "role",
                                              "rows",
                                              "sample",
                                              "seed",
                                              "size",
                                              "step",
                                              "steps",
                                              "stride",
                                              "target",
                                              "targets",
                                              "temperature",
                                              "texts",
                                              "threads",
                                              "tokenizer",
                                              "tokens",
                                              "top_k",
                                              "top_p",
                                              "weights",
                                              "width",
                                              "window"};

/// Remedies of the command line, and their counterparts in the interface.
constexpr std::pair<std::string_view, std::string_view> remedies[] = {
    {"read the file's own bytes with --raw", "give the file's own bytes as an array"},
    {"give --raw to read the file's own bytes", "give the file's own bytes as an array"},
    {"use sluice generate --no-cache, which needs no rows",
     "recompute windows, which needs no rows: no_cache = 1 in C, cached=False in Python"},
    {"give --data FILE", "give one"},
    {"give --images WxHxC where the command has it", "give images, such as \"32x32x3\""},
    {"name others, or leave the flag out", "name others, or leave it out"},
    {"name another, or leave the flag out", "name another, or leave it out"},
    {"pass --allow-leak", "set allow_leak"},
    {"with --no-cache", "without a cache: no_cache = 1 in C, cached=False in Python"},
};

/// Replaces "--set KEY=VALUE" by "KEY=VALUE in the spec".
void replaceSettings(std::string &message) {
  constexpr std::string_view flag = "--set ";
  for (size_t at = 0; (at = message.find(flag, at)) != std::string::npos;) {
    size_t end = message.find_first_of(",; )", at + flag.size());
    end = std::min(end, message.size());
    if (message.substr(at, end - at).find('=') == std::string::npos) {
      at = end;
      continue;
    }
    message.insert(end, " in the spec");
    message.erase(at, flag.size());
  }
}

} // namespace

std::string renameFlags(const std::string &original) {
  std::string message = original, renamed;
  for (auto [flags, words] : remedies) {
    for (size_t at = 0; (at = message.find(flags, at)) != std::string::npos; at += words.size()) {
      message.replace(at, flags.size(), words);
    }
  }
  replaceSettings(message);
  for (size_t i = 0; i < message.size();) {
    auto isWord = [&](size_t at) {
      return at < message.size() &&
             (std::islower(static_cast<unsigned char>(message[at])) || message[at] == '-');
    };
    bool begins = i == 0 || !(std::isalnum(static_cast<unsigned char>(message[i - 1])) ||
                              message[i - 1] == '-');
    size_t end = i + 2;
    while (isWord(end)) {
      ++end;
    }
    if (!begins || message.compare(i, 2, "--") != 0 || end == i + 2) {
      renamed += message[i++];
      continue;
    }
    std::string flag = message.substr(i, end - i), name = flag.substr(2);
    std::ranges::replace(name, '-', '_');
    bool isOption = std::ranges::find(argumentNames, name) != std::end(argumentNames);
    renamed += isOption ? name : flag == "--force" ? "another name" : flag + " of the command line";
    i = end;
  }
  return renamed;
}

MessageParts splitMessage(const std::string &message) {
  MessageParts parts;
  size_t expected = message.find("expected ");
  std::string place = message.substr(0, expected == std::string::npos ? 0 : expected);
  if (place.ends_with(": ")) {
    place.resize(place.size() - 2);
    auto isArgument = [](std::string_view name) {
      return name.starts_with("inputs.") || name.starts_with("labels.") ||
             name.starts_with("tokens[") ||
             std::ranges::find(argumentNames, name) != std::end(argumentNames);
    };
    if (size_t colon = place.rfind(": ");
        colon != std::string::npos && isArgument(std::string_view(place).substr(colon + 2))) {
      place.resize(colon); // FILE:LINE:COLUMN: ARGUMENT
    }
    parts.column = takeNumber(place);
    parts.line = parts.column > 0 ? takeNumber(place) : 0;
    if (parts.line == 0) { // FILE:LINE
      std::swap(parts.line, parts.column);
    }
    parts.file = isArgument(place) || place.find(": ") != std::string::npos ? "" : place;
  }
  if (expected == std::string::npos) {
    return parts;
  }
  size_t from = expected + std::string_view("expected ").size();
  size_t found = message.find(", found ", from);
  size_t ends = message.find("; ", found == std::string::npos ? from : found);
  size_t last = std::min(message.size(), ends);
  parts.expected = message.substr(from, std::min(found, last) - from);
  if (found != std::string::npos) {
    size_t start = found + std::string_view(", found ").size();
    parts.found = message.substr(start, last - start);
  }
  if (ends != std::string::npos) {
    parts.remedy = message.substr(ends + 2);
  }
  return parts;
}

sluice_status guard(llvm::function_ref<void()> job) noexcept {
  try {
    try {
      job();
      return SLUICE_OK;
    } catch (const Interrupted &error) {
      return record(SLUICE_INTERRUPTED, error.what());
    } catch (const LeakFound &error) {
      return record(SLUICE_LEAK, error.what(), &error.verdict);
    } catch (const UserError &error) {
      return record(SLUICE_BAD_INPUT, error.what());
    } catch (const JobError &error) {
      return record(SLUICE_FAILED, error.what());
    } catch (const std::system_error &error) {
      return record(SLUICE_FAILED, error.what());
    } catch (const std::bad_alloc &) {
      return record(SLUICE_FAILED, "out of memory");
    } catch (const std::exception &error) {
      return record(SLUICE_INTERNAL, error.what());
    }
  } catch (...) { // no memory for the message
    lastRecord().error = {SLUICE_FAILED, "out of memory", "", 0, 0, "", "", "", -1, -1, -1};
    return SLUICE_FAILED;
  }
}

void endIfInterrupted() {
  if (interrupt.ends && interrupt.ends(interrupt.data) != 0) {
    throw Interrupted();
  }
}

void runCancellable(const std::function<void()> &job) {
  if (!interrupt.ends) {
    job();
    return;
  }
  std::atomic<bool> isCancelled = false;
  auto worker = std::async(std::launch::async, [&] {
    CancelScope scope(isCancelled);
    job();
  });
  try {
    while (worker.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
      endIfInterrupted();
    }
  } catch (...) {
    isCancelled = true;
    worker.wait();
    throw;
  }
  worker.get();
}

char *copyNotes(const std::vector<std::string> &notes) {
  std::string text;
  for (const std::string &note : notes) {
    text += note.empty() ? "" : note + "\n";
  }
  char *copy = ::strdup(text.c_str());
  if (!copy) {
    throw std::bad_alloc();
  }
  return copy;
}

void requireSize(size_t size, size_t most) {
  if (size < sizeof(size_t) || size > most) {
    throw UserError("size: expected the size of a structure, from " +
                    std::to_string(sizeof(size_t)) + " to " + std::to_string(most) + ", found " +
                    std::to_string(size) +
                    "; set it to sizeof, and use a library that is not older than the header");
  }
}

void require(const void *pointer, const char *name) {
  if (!pointer) {
    throw UserError(std::string("expected a pointer for \"") + name +
                    "\", found NULL; give the address of an object");
  }
}

void requireDone(const driver::Outcome &outcome) {
  switch (outcome.status) {
  case 0:
    return;
  case 1:
    throw JobError(outcome.message);
  case 2:
    throw UserError(outcome.message);
  default:
    throw std::runtime_error(outcome.message);
  }
}

} // namespace sluice::interface

const sluice_error *sluice_last_error(void) {
  sluice_error &error = sluice::interface::lastRecord().error;
  if (!error.message) {
    error = {SLUICE_OK, "", "", 0, 0, "", "", "", -1, -1, -1};
  }
  return &error;
}

const char *sluice_version(void) { return SLUICE_VERSION; }

void sluice_set_interrupt(int (*ends)(void *data), void *data) {
  sluice::interface::interrupt = {ends, data};
}
