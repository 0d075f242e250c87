// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Npy.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

namespace sluice::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

/// Magic, version, length of the dictionary, the dictionary; a multiple of 64 bytes in all.
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
std::string header(const std::vector<int64_t> &shape) {
  std::string sizes;
  for (int64_t size : shape) {
    sizes += std::to_string(size) + (shape.size() == 1 ? "," : ", ");
  }
  if (shape.size() > 1) {
    sizes.resize(sizes.size() - 2);
  }
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + sizes + "), }";
  constexpr size_t before = 10, alignment = 64;
  text.append((alignment - (before + text.size() + 1) % alignment) % alignment, ' ');
  text += '\n';
  std::string start = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0};
  start += static_cast<char>(text.size() & 255);
  start += static_cast<char>(text.size() >> 8);
  return start + text;
}

} // namespace

NpyWriter::NpyWriter(const Path &path, const std::vector<int64_t> &shape)
    : path(path), temporary(path) {
  requireWritable(path);
  missing = 1;
  for (int64_t size : shape) {
    missing *= size;
  }
  temporary += ".tmp-" + std::to_string(::getpid());
  fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    fail(errno);
  }
  try {
    write(asBytes(header(shape)));
  } catch (...) {
    ::close(fd);
    ::unlink(temporary.c_str());
    throw;
  }
}

NpyWriter::~NpyWriter() {
  if (fd >= 0) {
    ::close(fd);
    ::unlink(temporary.c_str());
  }
}

void NpyWriter::fail(int error) const {
  std::string message = path.string() + ": cannot write: " + std::strerror(error);
  failWith(message + (isMachineFailure(error) ? "; free space on the disk or name another place"
                                              : "; name another place"),
           error);
}

void NpyWriter::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      fail(errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
}

void NpyWriter::append(std::span<const float> numbers) {
  missing -= static_cast<int64_t>(numbers.size());
  write({reinterpret_cast<const uint8_t *>(numbers.data()), numbers.size_bytes()});
}

void NpyWriter::finish() {
  if (missing != 0) {
    throw std::logic_error(path.string() + ": " + std::to_string(missing) + " numbers are missing");
  }
  if (::fsync(fd) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    fail(errno);
  }
  ::close(fd);
  fd = -1;
  syncFolder(path.has_parent_path() ? path.parent_path() : Path("."));
}

} // namespace sluice::runtime
