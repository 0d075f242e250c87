// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "GenerateImages.h"

#include "CommandLine.h"
#include "Common.h"
#include "sluice/Runtime/Data/Images.h"
#include "sluice/Runtime/Data/LinePairs.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <iostream>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

void addImageFlags(CLI::App &command, ImageFlags &flags) {
  CLI::Option *size =
      command
          .add_option(
              "--images", flags.size,
              "Write images of this size, as many bytes each as the context has tokens, and no "
              "text")
          ->type_name("WxHxC")
          ->default_str("");
  command
      .add_option("--image", flags.files,
                  "With --images: images to complete, PNG or bytes; none writes new ones")
      ->type_name("FILE")
      ->default_str("")
      ->needs(size);
  command
      .add_option("--keep", flags.keep,
                  "With --image: rows of pixels to keep of each; -1 keeps the upper half")
      ->check(wholeNumber(-1, 1 << 15))
      ->needs(size);
  command.add_option("--png", flags.out, "With --images: folder for the PNG files; new or empty")
      ->type_name("DIR")
      ->default_str("")
      ->needs(size);
}

/// Returns the number of given rows of each image.
static int64_t keptRows(const ImageFlags &flags, const ImageSize &size) {
  if (flags.files.empty()) {
    if (flags.keep > 0) {
      throw UserError(
          "--keep: expected --image with it, found none; name the images whose rows are kept");
    }
    return 0;
  }
  if (flags.keep > size.height) {
    throw UserError("--keep: expected at most the " + std::to_string(size.height) +
                    " rows of an image, found " + std::to_string(flags.keep));
  }
  return flags.keep < 0 ? size.height / 2 : flags.keep;
}

static void requireNewFolder(const Path &folder) {
  if (folder.empty()) {
    throw UserError("expected --png DIR with --images, found none; name a folder for the images");
  }
  if (isThere(folder) && (!isFolder(folder) || !listFolder(folder).empty())) {
    throw UserError("--png: expected a new or an empty folder, found " + folder.string() +
                    "; name another");
  }
  checkOutputFolder("--png", folder, {}, nullptr, {}, /*force=*/false); // not part of a run
}

void writeImages(const ImageFlags &flags, int64_t samples, bool noCache, const std::string &weights,
                 std::optional<int64_t> step, const WeightNames &names,
                 const SamplingOptions &options, Executor &executor) {
  ImageSize size = parseImageSize("--images", flags.size);
  int64_t keep = keptRows(flags, size);
  requireNewFolder(flags.out);
  refuseInputs(executor.plan(), "--images");
  requireFits(size, executor.plan());
  std::vector<std::vector<int32_t>> starts(flags.files.empty() ? 1 : 0, {imageStart});
  auto kept = static_cast<size_t>(keep * size.width * size.channels);
  if (int64_t first = executor.plan().model.first; static_cast<int64_t>(kept) < first) {
    throw UserError("--images: expected at least " + std::to_string(first) +
                    " bytes of an image to continue, as the model leaves out its first " +
                    std::to_string(first) + " rows, found " + std::to_string(kept) +
                    "; give --image, and --keep enough of its rows");
  }
  if (!flags.files.empty()) {
    Images images({flags.files.begin(), flags.files.end()}, size, executor.plan(), 0);
    for (int64_t i = 0; i < images.rowsPerEpoch(); ++i) {
      std::vector<uint8_t> pixels = images.at(i);
      starts.push_back({imageStart});
      starts.back().insert(starts.back().end(), pixels.begin(),
                           pixels.begin() + static_cast<std::ptrdiff_t>(kept));
    }
  }
  std::vector<Text> texts;
  for (const std::vector<int32_t> &start : starts) {
    for (int64_t sample = 0; sample < samples; ++sample) {
      texts.push_back({start, sample});
    }
  }
  loadWeights(weights, executor, printNotice, step, names);
  Predictor predictor(executor, !noCache);
  Progress progress;
  int64_t missing = size.bytes() - static_cast<int64_t>(kept), done = 0;
  auto all = static_cast<double>(missing * static_cast<int64_t>(texts.size()));
  writeTexts(executor, predictor, texts, missing, options, {},
             {[&](size_t, std::string_view bytes) {
               done += static_cast<int64_t>(bytes.size());
               progress.draw(static_cast<double>(done) / all, "writing images");
               return true;
             }});
  progress.clear();
  makeFolder(flags.out);
  for (size_t i = 0; i < texts.size(); ++i) {
    Path file = Path(flags.out) / (std::to_string(i + 1) + ".png");
    std::vector<uint8_t> pixels(texts[i].tokens.begin() + 1, texts[i].tokens.end());
    replaceFile(file, encodePng(pixels, size));
    std::cout << showPath(file.native()) << "\n";
  }
  std::cout << std::flush;
}

} // namespace sluice::cli
