// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program `sluice`: parses the command line, runs one subcommand, turns failures into one
// message and a status: 0 done, 1 the job or the machine failed (or a leak was found), 2 bad input,
// 3 an internal error, 130 interrupted.
#include "CommandLine.h"
#include "Commands.h"
#include "Failures.h"
#include "Processes.h"
#include "sluice/Support/Error.h"

#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <unistd.h>

namespace {

using namespace sluice;

/// A standard stream that the caller closed would get the first file that a job opens: occupies it
/// here, such that its use fails.
void occupyStandardStreams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) < 0) {
      ::open("/dev/null",
             fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); // takes the lowest free number, which is fd
    }
  }
}

/// Output may be in a buffer until here. A reader that closes early (head) is no failure.
void requireOutput() {
  std::cout.flush();
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  bool readerLeft = ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP));
  if (!std::cout && !readerLeft) {
    throw JobError("expected to write to the standard output, found it closed or full; "
                   "free space on the disk or " +
                   std::string("name another place"));
  }
}

void registerCommands(CLI::App &program) {
  cli::registerCheck(program);
  cli::registerCompile(program);
  cli::registerTrain(program);
  cli::registerEval(program);
  cli::registerLogits(program);
  cli::registerExport(program);
  cli::registerImport(program);
  cli::registerAnalyze(program);
  cli::registerBoundaries(program);
  cli::registerGenerate(program);
  cli::registerBench(program);
  cli::registerInspect(program);
  cli::registerPlanScale(program);
  cli::registerReport(program);
  cli::registerNgram(program);
  cli::registerScore(program);
  cli::registerTokenizer(program);
  for (CLI::App *command : program.get_subcommands(nullptr)) {
    cli::checkValues(*command);
    std::string name = command->get_name();
    if (name != "train" && name != "eval" && name != "logits") {
      command->preparse_callback([name](size_t) { cli::requireOneProcess(name); });
    }
  }
}

/// Runs the subcommand of the command line. Returns the exit status; throws the exceptions that
/// `main` reports.
int run(CLI::App &program, int argc, char **argv) {
  int status = 0;
  std::vector<std::string> words = cli::joinNumbers(argc, argv);
  try {
    program.parse(std::vector<std::string>(words.rbegin(), words.rend())); // last word first
  } catch (const cli::ExitStatus &exit) {
    status = exit.status;
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() != 0) {
      throw UserError(cli::explainParseError(program, error, words));
    }
    program.exit(error); // --help and --version
  }
  requireOutput();
  return status;
}

} // namespace

int main(int argc, char **argv) {
  occupyStandardStreams();
  cli::installFailureHandlers();
  int64_t rank = cli::launchedRank();
  cli::setMessageRank(rank, /*isMuted=*/rank > 0); // all processes have the same command line
  CLI::App program("Compiles, trains and runs multi-scale autoregressive transformers.", "sluice");
  program.option_defaults()->always_capture_default();
  program.require_subcommand(1);
  program.set_version_flag("--version", std::string("sluice ") + SLUICE_VERSION);
  registerCommands(program);
  program.footer("sluice SUBCOMMAND --help shows its flags, defaults and units.\n"
                 "Exit status: 0 done; 1 the job failed, or a leak was found; 2 bad input; 3 a "
                 "defect of sluice; 130 interrupted.");
  try {
    return run(program, argc, argv);
  } catch (...) {
    return cli::explainException();
  }
}
