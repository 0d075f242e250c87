// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ProductQueues.h"

#include "Machine.h"

#include "llvm/ADT/bit.h"
#include <algorithm>

using namespace sluice;
using namespace sluice::emulator;

static constexpr unsigned lanes = Machine::lanes;

ProductQueues::Queue &ProductQueues::getQueue() { return queues[machine.thread()]; }

static void nothing(Machine &, void *const *, uint32_t) {}

void ProductQueues::fence(uint32_t site) {
  machine.meetings.meet(site, "wgmma.fence", ~0u, true, nullptr, nothing);
  getQueue().fenced = true;
}

void ProductQueues::commit(uint32_t site) {
  machine.meetings.meet(site, "wgmma.commit_group", ~0u, true, nullptr, nothing);
  Queue &queue = getQueue();
  ++queue.group;
  queue.fenced = false;
}

void ProductQueues::wait(uint32_t site, uint64_t mostPending) {
  machine.meetings.meet(site, "wgmma.wait_group", ~0u, true, nullptr, nothing);
  Queue &queue = getQueue();
  Time committed = queue.group - 1;
  Time done = committed - static_cast<Time>(std::min<uint64_t>(committed, mostPending));
  queue.waited = std::max(queue.waited, done);
  machine.clocks.learnProducts(machine.thread(), done);
}

MatrixDescriptor ProductQueues::parse(uint64_t bits, bool linesAreInner, uint32_t site) {
  MatrixDescriptor matrix;
  std::string reason = matrix.parse(bits, linesAreInner);
  if (!reason.empty()) {
    machine.fail(ViolationKind::Descriptor, site, reason + ", found " + std::to_string(bits));
  }
  return matrix;
}

void ProductQueues::multiply(WarpgroupProduct product) {
  Queue &queue = getQueue();
  if (machine.threads.count() % (warps * lanes)) {
    machine.fail(ViolationKind::Limit, product.site,
                 "expected a block of whole warpgroups, of 128 threads");
  }
  if (!queue.fenced) {
    machine.complain(ViolationKind::UnfencedProduct, product.site,
                     "expected a wgmma.fence since the last group of products");
  }
  queue.last = queue.group;
  queue.site = product.site;
  queue.issued = (queue.issued + product.site) * 0x9e3779b97f4a7c15u;
  machine.meetings.meet(product.site, "wgmma.mma_async", ~0u, true, &product, perform);
}

namespace {

/// A matrix in a thread-independent form: numbers[line][element].
struct MatrixNumbers {
  std::vector<float> numbers;
  uint64_t elements = 0; ///< of a line
  bool linesAreInner = false;

  float at(uint64_t outer, uint64_t inner) const {
    return linesAreInner ? numbers[inner * elements + outer] : numbers[outer * elements + inner];
  }
};

} // namespace

/// Reads a matrix of `outer` elements by 16, as the products of the running thread's warp at
/// `time`.
static MatrixNumbers read(Machine &machine, const MatrixDescriptor &matrix, uint64_t outer,
                          Time time, uint32_t site) {
  constexpr uint64_t chunkElements = MatrixDescriptor::chunkBytes / 2;
  uint64_t lines = matrix.linesAreInner ? MatrixDescriptor::inner : outer;
  MatrixNumbers result;
  result.linesAreInner = matrix.linesAreInner;
  result.elements = matrix.linesAreInner ? outer : MatrixDescriptor::inner;
  result.numbers.reserve(lines * result.elements);
  Touch touch;
  touch.reads = touch.product = true;
  touch.agentTime = time;
  touch.site = site;
  unsigned leader = machine.thread() / lanes * lanes;
  std::vector<uint64_t> chunks;
  for (uint64_t line = 0; line < lines; ++line) {
    chunks.clear();
    for (uint64_t chunk = 0; chunk < result.elements / chunkElements; ++chunk) {
      chunks.push_back(machine.sharedBegin() + matrix.getChunk(line, chunk));
    }
    std::vector<uint64_t> sorted = chunks;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0, end = 0; i < sorted.size(); i = end) {
      for (end = i + 1;
           end < sorted.size() && sorted[end] == sorted[end - 1] + MatrixDescriptor::chunkBytes;
           ++end) {
      }
      touch.address = sorted[i];
      touch.bytes = (end - i) * MatrixDescriptor::chunkBytes;
      machine.touch(leader, touch);
    }
    for (uint64_t chunk : chunks) {
      const auto *elements = reinterpret_cast<const uint16_t *>(chunk);
      for (uint64_t i = 0; i < chunkElements; ++i) {
        result.numbers.push_back(llvm::bit_cast<float>(uint32_t(elements[i]) << 16));
      }
    }
  }
  return result;
}

/// Computes the 16 rows of a warp: products exactly in float64, and their sums nearly so, as
/// mma.sync here. Thread g = l / 4, q = l mod 4 has number i of columns 8 j: row g + 8 (i div 2),
/// column 8 j + 2 q + i mod 2.
void ProductQueues::perform(Machine &machine, void *const *brought, uint32_t) {
  const WarpgroupProduct &first = *static_cast<WarpgroupProduct *>(brought[0]);
  ProductQueues &products = machine.products;
  for (unsigned lane = 1; lane < lanes; ++lane) {
    const WarpgroupProduct &other = *static_cast<WarpgroupProduct *>(brought[lane]);
    if (other.a != first.a || other.b != first.b) {
      machine.fail(ViolationKind::Descriptor, first.site,
                   "expected one descriptor for all lanes of the warp");
    }
  }
  Time time = products.queues[machine.thread()].group;
  MatrixNumbers a = read(machine, products.parse(first.a, first.aLinesAreInner, first.site), rows,
                         time, first.site);
  MatrixNumbers b = read(machine, products.parse(first.b, first.bLinesAreInner, first.site),
                         first.columns, time, first.site);
  uint64_t firstRow = machine.thread() / lanes % warps * 16, columns = first.columns;
  std::vector<double> sums(16 * columns), right(MatrixDescriptor::inner * columns);
  for (uint64_t k = 0; k < MatrixDescriptor::inner; ++k) {
    for (uint64_t column = 0; column < columns; ++column) {
      right[k * columns + column] = b.at(column, k);
    }
  }
  for (uint64_t row = 0; row < 16; ++row) {
    double *sum = &sums[row * columns];
    for (uint64_t k = 0; k < MatrixDescriptor::inner; ++k) {
      double left = a.at(firstRow + row, k);
      for (uint64_t column = 0; column < columns; ++column) {
        sum[column] += left * right[k * columns + column];
      }
    }
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    float *mine = static_cast<WarpgroupProduct *>(brought[lane])->sums;
    for (uint64_t n = 0; n < columns / 2; ++n) {
      uint64_t i = n % 4, row = lane / 4 + i / 2 * 8, column = n / 4 * 8 + lane % 4 * 2 + i % 2;
      mine[n] = static_cast<float>(sums[row * columns + column] + mine[n]);
    }
  }
  ++machine.report.counters.tensorInstructions;
  machine.report.counters.tensorFlops += 2 * 16 * columns * MatrixDescriptor::inner;
}

void ProductQueues::endThread() {
  const Queue &queue = getQueue();
  if (queue.last > queue.waited) {
    machine.complain(ViolationKind::PendingProduct, queue.site,
                     "expected the thread to wait for its products before it ends");
  }
}

void ProductQueues::endBlock() {
  for (size_t thread = 0; thread < queues.size(); thread += lanes) {
    size_t leader = thread / (warps * lanes) * warps * lanes;
    const Queue &own = queues[thread], &first = queues[leader];
    if (own.issued != first.issued) {
      machine.complain(ViolationKind::BarrierDivergence, std::max(own.site, first.site),
                       "expected the four warps of a warpgroup to issue the same products");
      return;
    }
  }
}
