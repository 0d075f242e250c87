// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Record.h"

#include "sluice/Support/Error.h"

#include <charconv>
#include <new>
#include <system_error>

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
  Record &last = lastRecord();
  last.message = message;
  last.parts = splitMessage(message);
  if (verdict && verdict->place.line > 0) {
    last.parts.file = verdict->place.file;
    last.parts.line = verdict->place.line;
    last.parts.column = verdict->place.column;
  }
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

} // namespace

MessageParts splitMessage(const std::string &message) {
  MessageParts parts;
  size_t expected = message.find("expected ");
  std::string place = message.substr(0, expected == std::string::npos ? 0 : expected);
  if (place.ends_with(": ")) {
    place.resize(place.size() - 2);
    parts.column = takeNumber(place);
    parts.line = parts.column > 0 ? takeNumber(place) : 0;
    if (parts.line == 0) { // FILE:LINE
      std::swap(parts.line, parts.column);
    }
    bool isFlag = place.starts_with("--") || place.find(": ") != std::string::npos;
    parts.file = isFlag ? "" : place;
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

sluice_status guard(const std::function<void()> &job) noexcept {
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
    } catch (const std::invalid_argument &) {
      return record(SLUICE_BAD_INPUT,
                    "expected a structure with its size in the member size, found another size; "
                    "set it to sizeof, and use a library that is not older than the header");
    } catch (const std::system_error &error) {
      return record(SLUICE_FAILED, error.what());
    } catch (const std::bad_alloc &) {
      return record(SLUICE_FAILED, "out of memory");
    } catch (const std::exception &error) {
      return record(SLUICE_INTERNAL, error.what());
    }
  } catch (...) { // no memory for the message
    return SLUICE_FAILED;
  }
}

void endIfInterrupted() {
  if (interrupt.ends && interrupt.ends(interrupt.data) != 0) {
    throw Interrupted();
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
