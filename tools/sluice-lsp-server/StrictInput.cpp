// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StrictInput.h"

#include "sluice/Editor/IrMessages.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

using namespace sluice::editor;

namespace {

/// Framed messages that are not read yet.
std::string pending;

ssize_t readPending(void *, char *into, size_t size) {
  while (pending.empty()) {
    std::optional<Incoming> incoming = readMessage(std::cin);
    if (!incoming) {
      return 0;
    }
    if (std::optional<nlohmann::json> answer = refuseIrMessage(*incoming)) {
      llvm::outs() << frame(*answer); // the server writes only on this thread
      llvm::outs().flush();
    } else {
      pending =
          "Content-Length: " + std::to_string(incoming->body.size()) + "\r\n\r\n" + incoming->body;
    }
  }
  size = std::min(size, pending.size());
  std::memcpy(into, pending.data(), size);
  pending.erase(0, size);
  return static_cast<ssize_t>(size);
}

} // namespace

std::FILE *openStrictInput() {
  std::ios::sync_with_stdio(false); // std::cin keeps the descriptor when `stdin` is replaced
  cookie_io_functions_t functions = {};
  functions.read = readPending;
  std::FILE *file = fopencookie(nullptr, "r", functions);
  if (file == nullptr) {
    std::perror("sluice-lsp-server: expected memory for the input, found none");
    std::exit(1);
  }
  return file;
}
