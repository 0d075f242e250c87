// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/FileMixUp.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/FileKind.h"
#include "sluice/Support/Text.h"

namespace sluice {

std::string_view describe(FileKind kind) {
  switch (kind) {
  case FileKind::Missing:
    return "no such file";
  case FileKind::Empty:
    return "an empty file";
  case FileKind::Folder:
    return "a directory";
  case FileKind::Run:
    return "a run's directory";
  case FileKind::Checkpoint:
    return "a checkpoint's directory";
  case FileKind::Artifact:
    return "a Sluice artifact";
  case FileKind::Weights:
    return "tensors (safetensors)";
  case FileKind::Session:
    return "a session of sluice generate";
  case FileKind::Recording:
    return "a recording of launches";
  case FileKind::Npy:
    return "a NumPy array (.npy)";
  case FileKind::Svg:
    return "a picture (SVG)";
  case FileKind::Html:
    return "an HTML page";
  case FileKind::Certificate:
    return "a certificate";
  case FileKind::Smt:
    return "an SMT-LIB script";
  case FileKind::Trace:
    return "a trace of sluice generate";
  case FileKind::Metrics:
    return "a run's metrics";
  case FileKind::Tuning:
    return "a tuning file";
  case FileKind::Spec:
    return "a model spec (JSON)";
  case FileKind::Tokenizer:
    return "a tokenizer";
  case FileKind::TokenCache:
    return "a cache of token ids";
  case FileKind::SentencePiece:
    return "a SentencePiece model";
  case FileKind::SubwordCodes:
    return "codes of subword-nmt";
  case FileKind::HuggingFaceTokenizer:
    return "a tokenizer of Hugging Face (tokenizer.json)";
  case FileKind::LfsPointer:
    return "a Git LFS pointer, which only names the file";
  case FileKind::PyTorch:
    return "a PyTorch file (pickle)";
  case FileKind::Pickle:
    return "a Python pickle";
  case FileKind::Gguf:
    return "a GGUF file";
  case FileKind::Hdf5:
    return "an HDF5 file";
  case FileKind::Npz:
    return "an archive of arrays (.npz)";
  case FileKind::Zip:
    return "a ZIP archive";
  case FileKind::Gzip:
    return "gzip data";
  case FileKind::Zstd:
    return "zstd data";
  case FileKind::Bzip2:
    return "bzip2 data";
  case FileKind::Xz:
    return "xz data";
  case FileKind::Tar:
    return "a tar archive";
  case FileKind::SevenZip:
    return "a 7z archive";
  case FileKind::Parquet:
    return "a Parquet file";
  case FileKind::Arrow:
    return "an Arrow file";
  case FileKind::Sqlite:
    return "an SQLite database";
  case FileKind::Png:
    return "a PNG image";
  case FileKind::Jpeg:
    return "a JPEG image";
  case FileKind::Pdf:
    return "a PDF file";
  case FileKind::Elf:
    return "a compiled program or library (ELF)";
  case FileKind::Utf16:
    return "text in UTF-16";
  case FileKind::Utf32:
    return "text in UTF-32";
  case FileKind::Json:
    return "JSON";
  case FileKind::Text:
    return "text";
  case FileKind::Binary:
    return "a file of an unknown kind";
  }
  return "a file";
}

namespace {

/// Returns the command that converts a file of `torch.load`. Names of tensors may differ; a later
/// message reports them.
std::string convertPyTorch(const Path &path) {
  return "convert it, as in python3 -c 'import torch; from safetensors.torch import save_file; "
         "state = torch.load(\"" +
         showPath(path.native()) +
         "\", map_location=\"cpu\", weights_only=True); save_file({k: "
         "v.float().contiguous().clone() "
         "for k, v in state.items()}, \"weights.safetensors\")' (where the file holds more than "
         "weights, take those of it, such as state[\"model\"])";
}

std::string remedyForArtifact(FileKind found, const Path &path, const std::string &shown) {
  switch (found) {
  case FileKind::Json:
    if (isRunFolder(path.has_parent_path() ? path.parent_path() : Path("."))) {
      return "it is a part of a run; name the artifact that the run was trained from";
    }
    [[fallthrough]]; // a spec with an error in it
  case FileKind::Spec:
    return "compile it first: sluice compile " + shown + " -o model.sla";
  case FileKind::Run:
  case FileKind::Checkpoint:
    return "name the artifact that it was trained from; the run is named by --weights or --out";
  case FileKind::Weights:
    return "weights are named by --weights; name the artifact, from sluice compile, here";
  default:
    return "name a file that sluice compile wrote";
  }
}

std::string remedyForSpec(FileKind found, const std::string &shown) {
  switch (found) {
  case FileKind::Artifact:
    return "name the spec that it was compiled from; sluice inspect " + shown +
           " --extract DIR writes it to DIR/spec.json";
  case FileKind::Run:
    return "its spec is " + shown + "/spec.json";
  default:
    return "name a model spec, JSON (docs/spec.md)";
  }
}

std::string remedyForRun(FileKind found) {
  switch (found) {
  case FileKind::Artifact:
  case FileKind::Spec:
    return "name the directory that sluice train wrote (its --out)";
  case FileKind::Checkpoint:
    return "name the run's directory, two levels up";
  default:
    return "name a directory that sluice train wrote";
  }
}

std::string remedyForWeights(FileKind found, const Path &path) {
  switch (found) {
  case FileKind::PyTorch:
  case FileKind::Pickle:
    return convertPyTorch(path);
  case FileKind::Artifact:
    return "an artifact holds no weights; name a run, a checkpoint or a safetensors file, and "
           "train first where there is none";
  case FileKind::Session:
    return "a session is named by --session; name a run, a checkpoint or a safetensors file";
  case FileKind::Folder:
    return "name a run, a checkpoint, or a safetensors file in it";
  case FileKind::Json:
    return "name a safetensors file (the parts that an index lists are joined into one first)";
  default:
    return "name a run, a checkpoint or a safetensors file";
  }
}

std::string remedyForTokenizer(FileKind found, const std::string &shown) {
  switch (found) {
  case FileKind::SentencePiece:
  case FileKind::SubwordCodes:
    return "import it: sluice tokenizer --import " + shown + " -o TOK";
  case FileKind::HuggingFaceTokenizer:
    return "it is not read; train a tokenizer: sluice tokenizer --data FILE --vocabulary N -o TOK";
  default:
    return "name a file that sluice tokenizer wrote";
  }
}

} // namespace

bool isMixUp(FileKind expected, FileKind found) {
  switch (found) {
  case FileKind::Missing:
  case FileKind::Empty:
  case FileKind::Text:
  case FileKind::Binary:
    return false;
  case FileKind::Json: // a spec with an error in it
    return expected != FileKind::Spec && expected != FileKind::Tuning;
  case FileKind::Elf: // a truncated artifact
    return expected != FileKind::Artifact;
  default:
    return found != expected;
  }
}

std::string explainMixUp(FileKind expected, FileKind found, const Path &path) {
  std::string shown = showPath(path.native()), remedy;
  switch (found) {
  case FileKind::LfsPointer:
    remedy = "fetch the file itself with git lfs pull";
    break;
  case FileKind::Html:
    remedy = "it is probably a page about the file, or of an error; download the file itself";
    break;
  case FileKind::Gzip:
  case FileKind::Zstd:
    remedy = std::string("unpack it first, as in ") +
             (found == FileKind::Gzip ? "gzip -dk " : "zstd -dk ") + shown;
    break;
  default:
    remedy = expected == FileKind::Artifact    ? remedyForArtifact(found, path, shown)
             : expected == FileKind::Spec      ? remedyForSpec(found, shown)
             : expected == FileKind::Run       ? remedyForRun(found)
             : expected == FileKind::Weights   ? remedyForWeights(found, path)
             : expected == FileKind::Tokenizer ? remedyForTokenizer(found, shown)
             : expected == FileKind::Session
                 ? "name a file that sluice generate --save-session wrote"
             : expected == FileKind::Tuning ? "name a file that sluice bench --tune wrote"
                                            : "name another file";
  }
  return "found " + std::string(describe(found)) + "; " + remedy;
}

void requireKind(const Path &path, FileKind expected, std::string_view role) {
  FileKind found = recognizeFile(path);
  if (isMixUp(expected, found)) {
    throw UserError(showPath(path.native()) + ": expected " + std::string(role) + ", " +
                    explainMixUp(expected, found, path));
  }
}

} // namespace sluice
