// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program `sluice`: reads the command line, runs one subcommand, turns failures into one message and a status:
// 0 done, 1 the job failed (or a leak was found), 2 bad input, 3 an internal error, 130 interrupted.
#include "Commands.h"
#include "sluice/Runtime/Error.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <numeric>

namespace {

using namespace sluice;

/// Levenshtein distance.
size_t distance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// "; did you mean --steps?" where one of `names` is near to `found`.
std::string suggest(const std::string &found, const std::vector<std::string> &names) {
  auto nearest = std::min_element(names.begin(), names.end(), [&](const std::string &a, const std::string &b) {
    return distance(found, a) < distance(found, b);
  });
  bool near = nearest != names.end() && distance(found, *nearest) <= std::max<size_t>(2, found.size() / 3);
  return near ? "; did you mean " + *nearest + "?" : "";
}

/// The message for a word of the command line that no flag or subcommand takes.
std::string explainExtra(const CLI::App &program, const std::string &word) {
  std::vector<CLI::App *> chosen = const_cast<CLI::App &>(program).get_subcommands();
  std::vector<std::string> names;
  if (chosen.empty()) {
    for (const CLI::App *command : program.get_subcommands(nullptr)) {
      names.push_back(command->get_name());
    }
    return "expected a subcommand, found \"" + word + "\"" + suggest(word, names) + " (sluice --help lists them)";
  }
  for (const CLI::Option *option : chosen.front()->get_options()) {
    for (const std::string &name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  std::string command = chosen.front()->get_name();
  return "sluice " + command + ": expected one of its flags, found \"" + word + "\"" +
         suggest(word.substr(0, word.find('=')), names) + " (sluice " + command + " --help lists them)";
}

int explainParseError(const CLI::App &program, const CLI::ParseError &error) {
  if (error.get_exit_code() == 0) { // --help and --version
    return program.exit(error);
  }
  std::string message = error.what();
  std::vector<std::string> extras = program.remaining(true);
  // A misspelt word comes first: what else is missing is often what it was meant to be.
  bool mayBeMisspelt = dynamic_cast<const CLI::ExtrasError *>(&error) || dynamic_cast<const CLI::RequiredError *>(&error);
  if (mayBeMisspelt && !extras.empty()) {
    auto flag = std::find_if(extras.begin(), extras.end(), [](const std::string &w) { return w.starts_with("-"); });
    message = explainExtra(program, flag == extras.end() ? extras.front() : *flag);
  }
  if (dynamic_cast<const CLI::RequiredError *>(&error) && program.get_subcommands().empty() && extras.empty()) {
    message = "expected a subcommand, found none (sluice --help lists them)";
  }
  std::cerr << "sluice: error: " << message << std::endl;
  return 2;
}

void registerCommands(CLI::App &program) {
  cli::registerCheck(program);
  cli::registerCompile(program);
  cli::registerTrain(program);
  cli::registerEval(program);
  cli::registerGenerate(program);
  cli::registerBench(program);
  cli::registerInspect(program);
  cli::registerReport(program);
  cli::registerNgram(program);
}

} // namespace

int main(int argc, char **argv) {
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe then shows as a failed write, not as a killed program
  CLI::App program("Compiles, trains and runs multi-scale autoregressive transformers.", "sluice");
  program.option_defaults()->always_capture_default();
  program.require_subcommand(1);
  program.set_version_flag("--version", std::string("sluice ") + SLUICE_VERSION);
  registerCommands(program);
  try {
    program.parse(argc, argv);
    return 0;
  } catch (const cli::ExitStatus &exit) {
    return exit.status;
  } catch (const CLI::ParseError &error) {
    return explainParseError(program, error);
  } catch (const runtime::UserError &error) {
    std::cerr << "sluice: error: " << error.what() << std::endl;
    return 2;
  } catch (const runtime::JobError &error) {
    std::cerr << "sluice: error: " << error.what() << std::endl;
    return 1;
  } catch (const std::bad_alloc &) {
    std::cerr << "sluice: error: out of memory" << std::endl;
    return 1;
  } catch (const std::exception &error) {
    std::cerr << "sluice: internal error: " << error.what() << "; this is a defect of sluice, please report it"
              << std::endl;
    return 3;
  }
}
