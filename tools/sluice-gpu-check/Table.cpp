// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "GpuCheck.h"
#include "sluice/Support/Format.h"

#include <regex>

namespace sluice::gpucheck {
namespace {

/// Sum over the kernels of a timed artifact whose names match; seconds is 0 if there are none.
struct TableSum {
  double seconds = 0, flops = 0, bytes = 0, launches = 0;
};
TableSum sumKernels(const Json &ours, const std::string &label, const std::string &pattern) {
  TableSum sum;
  std::regex expression(pattern);
  for (const Json &timed : ours.value("timed", Json::array())) {
    for (const Json &kernel :
         timed["label"] == label ? timed.value("kernels", Json::array()) : Json::array()) {
      if (std::regex_match(kernel["kernel"].get<std::string>(), expression)) {
        sum.seconds += kernel["seconds"].get<double>();
        sum.flops += kernel["flops"].get<double>();
        sum.bytes += kernel["bytes"].get<double>();
        sum.launches += kernel["launches"].get<double>();
      }
    }
  }
  return sum;
}

std::string checkLines(const Json &ours) {
  int64_t right = 0, wrong = 0, numbers = 0, unbounded = 0, differing = 0;
  std::string mistakes;
  for (const Json &check : ours.value("checks", Json::array())) {
    if (check.contains("error")) {
      mistakes += "FAILED " + check["artifact"].get<std::string>() + " " +
                  check["target"].get<std::string>() + ": " + check["error"].get<std::string>() +
                  "\n";
    }
    for (const Json &kernel : check.value("kernels", Json::array())) {
      bool isWrong = !isRight(kernel);
      unbounded += kernel["unbounded"].get<int64_t>();
      ++(isWrong ? wrong : right);
      numbers += kernel["checked"].get<int64_t>();
      differing += kernel["differing"].get<int64_t>();
      if (isWrong) {
        mistakes += "WRONG " + check["artifact"].get<std::string>() + " " +
                    check["target"].get<std::string>() + " " + kernel["kernel"].get<std::string>() +
                    ": " + kernel["wrong"].dump() + " of " + kernel["checked"].dump() +
                    " numbers; " + kernel["first"].get<std::string>() + "\n";
      }
    }
  }
  return mistakes +
         format(
             "kernels: %lld right, %lld wrong; %lld numbers held to float64, %lld without a bound; "
             "%lld of other bits than the emulator's\n",
             static_cast<long long>(right), static_cast<long long>(wrong),
             static_cast<long long>(numbers), static_cast<long long>(unbounded),
             static_cast<long long>(differing));
}

/// Returns one of PyTorch's rates by label; 0 if there is none.
double torchRate(const Json &torch, const std::string &label) {
  return torch.is_object() && torch.contains("rows") && torch["rows"].contains(label) &&
                 torch["rows"][label].is_number()
             ? torch["rows"][label].get<double>()
             : 0;
}

std::string productLines(const Json &bundle, const Json &ours, const Json &torch) {
  std::string text =
      format("%-42s %8s %8s %6s %15s\n", "TFLOP/s", "sluice", "PyTorch", "ratio", "good/excellent");
  for (const Json &row : bundle.value("rows", Json::array())) {
    std::string label = row["label"];
    TableSum sum = sumKernels(ours, row["timed"], row["kernel"]);
    if (sum.seconds <= 0) {
      text += format("%-42s %8s\n", label.c_str(), "none");
      continue;
    }
    double flops = row.contains("flops") ? row["flops"].get<double>() * sum.launches : sum.flops;
    double rate = flops / sum.seconds / 1e12, other = torchRate(torch, label);
    text += format("%-42s %8.1f ", label.c_str(), rate) +
            (other > 0 ? format("%8.1f %6.2f", other, rate / other) : format("%8s %6s", "-", "-")) +
            format(" %15s\n", row.value("bars", "").c_str());
  }
  return text;
}

std::string streamLines(const Json &bundle, const Json &ours) {
  double copy = ours.value("copy", Json::object()).value("gbytes_per_s", 0.0);
  std::string text = format("copy: %.0f GB/s; row and stream kernels, share of it "
                            "(good 85%%, excellent 92%%; above 100%%: from the cache)\n",
                            copy);
  for (const Json &row : bundle.value("streams", Json::array())) {
    std::string label = row["label"];
    TableSum sum = sumKernels(ours, row["timed"], row["kernel"]);
    text += sum.seconds > 0 && copy > 0
                ? format("%-42s %7.0f%%\n", label.c_str(), sum.bytes / sum.seconds / 1e7 / copy)
                : format("%-42s %8s\n", label.c_str(), "none");
  }
  return text;
}

std::string stepLines(const Json &ours, const Json &torch) {
  std::string text =
      format("%-42s %8s %8s %8s\n", "training step, ms", "sluice", "eager", "compile");
  for (const Json &timed : ours.value("timed", Json::array())) {
    std::string label = timed["label"];
    if (timed.contains("error")) {
      text += "FAILED " + label + ": " + timed["error"].get<std::string>() + "\n";
      continue;
    }
    text += format("%-42s %8.2f", label.c_str(), timed["step_ms"].get<double>());
    for (const char *mode : {"eager_ms", "compile_ms"}) {
      bool known = torch.is_object() && torch.contains("steps") && torch["steps"].contains(label) &&
                   torch["steps"][label].contains(mode) && torch["steps"][label][mode].is_number();
      text +=
          known ? format(" %8.2f", torch["steps"][label][mode].get<double>()) : format(" %8s", "-");
    }
    text += "\n";
  }
  return text;
}

} // namespace

bool isRight(const Json &kernel) { return kernel["wrong"] == 0 && kernel["checked"] > 0; }

bool passed(const Json &ours) {
  bool any = false, right = !ours.value("copy", Json::object()).contains("error");
  for (const char *list : {"checks", "timed"}) {
    for (const Json &each : ours.value(list, Json::array())) {
      right &= !each.contains("error");
    }
  }
  for (const Json &check : ours.value("checks", Json::array())) {
    for (const Json &kernel : check.value("kernels", Json::array())) {
      any = true;
      right &= isRight(kernel);
    }
  }
  return any && right;
}

std::string makeTable(const Json &bundle, const Json &ours, const Json &torch) {
  std::string beside = torch.is_null()             ? "PyTorch: not measured"
                       : torch.contains("missing") ? "PyTorch: " + torch.value("missing", "")
                                                   : "PyTorch " + torch.value("torch", "?");
  return ours.value("gpu", "?") + ", compute capability " + ours.value("capability", "?") + "; " +
         beside + "\n" + (ours.contains("ended") ? "" : "INCOMPLETE: the run ended early\n") +
         checkLines(ours) + productLines(bundle, ours, torch) + streamLines(bundle, ours) +
         stepLines(ours, torch);
}

} // namespace sluice::gpucheck
