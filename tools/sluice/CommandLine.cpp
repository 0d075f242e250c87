// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CommandLine.h"

#include "Failures.h"
#include "Processes.h"
#include "sluice/Support/EditDistance.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>

namespace sluice::cli {
namespace {

/// Returns "; did you mean --steps?" if one of `names` is similar to `found`.
std::string suggest(const std::string &found, const std::vector<std::string> &names) {
  bool meansGpu = found == "gpu" || found == "nvidia" || found == "cuda:0";
  if (meansGpu && std::count(names.begin(), names.end(), "cuda") > 0) {
    return "; did you mean cuda?"; // cpu has the smaller edit distance
  }
  auto nearest =
      std::min_element(names.begin(), names.end(), [&](const std::string &a, const std::string &b) {
        return computeEditDistance(found, a) < computeEditDistance(found, b);
      });
  bool near = nearest != names.end() &&
              computeEditDistance(found, *nearest) <= std::max<size_t>(2, found.size() / 3);
  return near ? "; did you mean " + *nearest + "?" : "";
}

const CLI::App *chosenCommand(const CLI::App &program) {
  std::vector<CLI::App *> chosen = const_cast<CLI::App &>(program).get_subcommands();
  return chosen.empty() ? nullptr : chosen.front();
}

/// Returns the flag before `word` if it takes one value and has one already; null if there is none.
const CLI::Option *findFullFlag(const CLI::App &command, const std::string &word,
                                const std::vector<std::string> &words) {
  auto at = std::find(words.begin(), words.end(), word);
  while (at != words.begin() && at != words.end()) {
    --at;
    if (at->starts_with("-") && at->size() > 1) {
      const CLI::Option *option = command.get_option_no_throw(at->substr(0, at->find('=')));
      bool takesOne = option && option->get_type_size_max() == 1 && !option->get_allow_extra_args();
      return takesOne && option->count() > 0 ? option : nullptr;
    }
  }
  return nullptr;
}

/// Explains an unexpected word of the command line.
std::string explainExtra(const CLI::App &program, const std::string &word,
                         const std::vector<std::string> &words) {
  const CLI::App *command = chosenCommand(program);
  std::vector<std::string> names;
  if (!command) {
    for (const CLI::App *each : program.get_subcommands(nullptr)) {
      names.push_back(each->get_name());
    }
    return "expected a subcommand, found " + quote(word) + suggest(word, names) +
           " (sluice --help lists them)";
  }
  const CLI::Option *full = word.starts_with("-") ? nullptr : findFullFlag(*command, word, words);
  if (full) {
    std::string flag = full->get_name();
    bool mayRepeat = full->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll ||
                     full->get_expected_max() > 1;
    bool needsName =
        full->get_type_name().starts_with("NAME=") && word.find('=') == std::string::npos;
    return "sluice " + command->get_name() + ": expected one value after " + flag + ", found " +
           quote(word) + " as well; " +
           (mayRepeat
                ? "repeat the flag, as in " + flag + (needsName ? " NAME=" : " ") + showPath(word)
                : "leave one of them out") +
           " (sluice " + command->get_name() + " --help)";
  }
  for (const CLI::Option *option : command->get_options()) {
    for (const std::string &name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return "sluice " + command->get_name() + ": expected one of its flags, found " + quote(word) +
         suggest(word.substr(0, word.find('=')), names) + " (sluice " + command->get_name() +
         " --help lists them)";
}

/// Returns the names of all arguments that are not flags.
std::string listArguments(const CLI::App &command) {
  std::string list;
  for (const CLI::Option *option : command.get_options()) {
    if (option->get_positional()) {
      list += " " + option->get_name();
    }
  }
  return list;
}

/// `name` is the start of CLI11's message: --data, or ART.
std::string explainMissing(const CLI::App &command, const std::string &name) {
  std::string usage = "sluice " + command.get_name();
  bool positional = !name.starts_with("-");
  std::vector<const CLI::Option *> options = command.get_options();
  bool mayBeTaken = std::any_of(options.begin(), options.end(), [](const CLI::Option *option) {
    return option->count() > 0 && option->get_expected_max() > 1;
  });
  std::string remedy = !positional  ? "give " + name
                       : mayBeTaken ? "write it first, as in " + usage + " " + name +
                                          " ..., since a flag that takes several values takes "
                                          "every word up to the next flag"
                                    : "write it, as in " + usage + listArguments(command);
  return usage + ": expected " + name + ", found none; " + remedy + " (" + usage +
         " --help lists all)";
}

/// Explains a duplicate flag, or one without its value.
std::string explainCount(const CLI::App &command, const std::string &message) {
  std::string name = message.substr(0, message.find(':')),
              start = "sluice " + command.get_name() + ": " + name + ": ";
  const CLI::Option *option = command.get_option_no_throw(name);
  if (option && option->results().size() > 1) {
    return start + "expected it once, found it " + std::to_string(option->results().size()) +
           " times; give it once";
  }
  return start + "expected a value, found none; write one after it (an empty one as " + name +
         " '')";
}

CLI::Validator realNumber() {
  return {[](std::string &text) {
            char *end = nullptr;
            bool isNumber = !std::isnan(std::strtod(text.c_str(), &end));
            return text.empty() || *end || !isNumber ? "expected a number, found " + quote(text)
                                                     : std::string();
          },
          "", "number"};
}

/// A flag whose value is missing takes the next flag as its value, which this detects.
CLI::Validator noFlag() {
  return {[](std::string &text) {
            if (text.empty()) {
              return std::string("expected the name of a file, found an empty one; name a file");
            }
            return text.starts_with("--") ? "expected a file, found " + quote(text) +
                                                "; a file of this name is ./" + showPath(text)
                                          : std::string();
          },
          "", "file"};
}

} // namespace

CLI::Validator byteSize() {
  return {[](std::string &text) {
            return findByteSize(text) ? std::string()
                                      : "expected a size such as 512MiB, 1.5GiB or 1000000 "
                                        "(bytes), found " +
                                            quote(text);
          },
          "", "size"};
}

int64_t parseByteSize(const std::string &text) { return findByteSize(text).value_or(0); }

CLI::Validator wholeNumber(int64_t least, int64_t most) {
  return {[=](std::string &text) {
            char *end = nullptr;
            errno = 0;
            long long value = std::strtoll(text.c_str(), &end, 10);
            if (!text.empty() && !*end && errno == 0 && value >= least && value <= most) {
              return std::string();
            }
            constexpr int64_t lowest = std::numeric_limits<int64_t>::min(),
                              highest = std::numeric_limits<int64_t>::max();
            std::string range = least == lowest   ? " of at most 63 bits"
                                : most == highest ? " of at least " + std::to_string(least)
                                                  : " from " + std::to_string(least) + " to " +
                                                        std::to_string(most);
            bool tooBig = errno == ERANGE && least != lowest && most == highest;
            return "expected an integer" + range + (tooBig ? " and at most 63 bits" : "") +
                   ", found " + quote(text);
          },
          "", "whole number"};
}

CLI::Validator matchChoice(const std::vector<std::string> &names) {
  std::string list;
  for (const std::string &name : names) {
    list += (list.empty() ? "" : ", ") + name;
  }
  return {[=](std::string &text) {
            return std::find(names.begin(), names.end(), text) != names.end()
                       ? std::string()
                       : "expected one of " + list + ", found " + quote(text) +
                             suggest(text, names);
          },
          "", "one of"};
}

void checkValues(CLI::App &command) {
  constexpr int64_t lowest = std::numeric_limits<int64_t>::min(),
                    highest = std::numeric_limits<int64_t>::max();
  for (CLI::Option *option : command.get_options()) {
    std::string type = option->get_type_name();
    if (type == "INT") {
      option->check(wholeNumber(lowest, highest));
    } else if (type == "UINT") {
      option->check(wholeNumber(0, highest));
    } else if (type == "FLOAT") {
      option->check(realNumber());
    } else if (type == "FILE") {
      option->check(noFlag());
    }
  }
}

CLI::Validator drawnSeed(const std::string &flag) {
  return {[flag](std::string &text) {
            if (CLI::detail::to_lower(text) == "random") {
              if (isLaunchedTogether()) {
                return std::string("expected a number, as each process would draw another seed, "
                                   "found random; give a number");
              }
              text = std::to_string(std::random_device()());
              printMessage(flag + " random: " + flag + " " + text + " repeats this");
            }
            return std::string();
          },
          "", "seed"};
}

void noteEscapes(const std::string &flag, const std::string &text) {
  for (size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at + 2)) {
    char letter = at + 1 < text.size() ? text[at + 1] : ' ';
    if (letter == 'n' || letter == 't' || letter == 'r' || letter == '0') {
      const char *name = letter == 'n'   ? "a newline"
                         : letter == 't' ? "a tab"
                         : letter == 'r' ? "a carriage return"
                                         : "a zero byte";
      std::string pair = std::string("\\") + letter;
      printMessage(
          "note: " + flag + ": " + pair + " is taken as two characters, a backslash and " + letter +
          (letter == '0'
               ? std::string("; a zero byte cannot be given")
               : std::string("; for ") + name + " write $'" + pair + "' in the shell (bash, zsh)"));
      return;
    }
  }
}

std::vector<std::string> joinNumbers(int argc, char **argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i], lower = word;
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    bool isNumber = lower == "-nan" || lower == "-inf" || lower == "-infinity";
    if (isNumber && !words.empty() && words.back().size() > 1 && words.back()[0] == '-' &&
        words.back().find('=') == std::string::npos) {
      words.back() += (words.back()[1] == '-' ? "=" : "") + word;
    } else {
      words.push_back(word);
    }
  }
  return words;
}

std::string explainParseError(const CLI::App &program, const CLI::ParseError &error,
                              const std::vector<std::string> &words) {
  std::vector<std::string> extras = program.remaining(true);
  const CLI::App *command = chosenCommand(program);
  std::string message = error.what();
  bool missing = dynamic_cast<const CLI::RequiredError *>(&error) != nullptr;
  // Reports a misspelt word first: often it is the missing flag.
  if ((missing || dynamic_cast<const CLI::ExtrasError *>(&error)) && !extras.empty()) {
    auto flag = std::find_if(extras.begin(), extras.end(),
                             [](const std::string &word) { return word.starts_with("-"); });
    return explainExtra(program, flag == extras.end() ? extras.front() : *flag, words);
  }
  if (missing && !command) {
    return "expected a subcommand, found none (sluice --help lists them)";
  }
  if (command && missing) {
    return explainMissing(*command, message.substr(0, message.find(' ')));
  }
  if (command && dynamic_cast<const CLI::ArgumentMismatch *>(&error)) {
    return explainCount(*command, message);
  }
  return command ? "sluice " + command->get_name() + ": " + message + " (sluice " +
                       command->get_name() + " --help)"
                 : message;
}

} // namespace sluice::cli
