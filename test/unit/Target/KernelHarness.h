// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Runs one generated CPU kernel in a test: from the text of a dispatch op to dense results.
#pragma once

#include "sluice/Target/CPU/Generate.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace llvm::orc {
class LLJIT;
}

namespace sluice::test {

/// Generates the kernel of a dispatch op; the test passes the generator of its family.
using KernelGenerator =
    std::function<mlir::FailureOr<cpu::Kernel>(mlir::Operation *dispatch, mlir::ModuleOp module,
                                               llvm::StringRef name, const cpu::Target &target)>;

/// Inputs of one run.
struct KernelInputs {
  std::vector<std::vector<float>> operands =
      {}; ///< dense row-major; converted to the tensor's element type
  int64_t length = 0, rows = 0, step = 1, seed = 0, firstStream = 0;
  std::map<unsigned, unsigned> shares = {}; ///< result -> operand whose memory it shares
  unsigned shuffle = 0;                     ///< seed of the items' order; 0: natural order
  unsigned threads = 1;                     ///< items are distributed to threads
  std::vector<int64_t> lengths = {};        ///< of an axis of segments, replaces `length`
};

/// Links objects and loads the result; null with a test failure on error. The caller closes the
/// library with `dlclose`.
void *loadObjects(llvm::ArrayRef<std::string> objects);

/// A kernel, generated, compiled and loaded.
class LoadedKernel {
public:
  /// `text` is a module whose function contains one dispatch op. Records a test failure when any
  /// step fails, and when the kernel allocates or copies complete buffers. `loaded` is true if it
  /// can run.
  LoadedKernel(llvm::StringRef text, const cpu::Target &target, const KernelGenerator &generator);
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel &) = delete;
  LoadedKernel &operator=(const LoadedKernel &) = delete;

  bool loaded() const { return static_cast<bool>(function); }
  int64_t items() const { return items_; }
  const cpu::Kernel &kernel() const { return kernel_; }

  /// Runs `items` items of `function` from now on: another target's kernel of the same op, on the
  /// same memory.
  using ItemFunction =
      std::function<void(uint8_t *arena, const int64_t *arguments, int64_t item, uint8_t *scratch)>;
  void use(int64_t items, ItemFunction function) {
    items_ = items;
    this->function = std::move(function);
  }

  /// Called after every run with the memory of each operand before the run, and of each result.
  using Observer = std::function<void(const std::vector<const void *> &operands,
                                      const std::vector<const void *> &results)>;
  void observe(Observer observer) { this->observer = std::move(observer); }

  /// Bytes of every operand's buffer, then of every result's.
  std::vector<int64_t> bufferBytes() const;
  unsigned operands() const { return operandCount; }

  /// The dispatch op of the text.
  mlir::Operation *dispatch() const { return dispatch_; }

  /// Runs every item once and returns the results, dense row-major. Everything that is not an
  /// operand or result holds 1e30 (0x7149f2ca where integers are read): padding, results before the
  /// run, and guards around every buffer. A write outside a result's buffer is recorded as a test
  /// failure.
  std::vector<std::vector<float>> run(const KernelInputs &launch) const;

  /// Returns true if this machine can run code of `target`, whose instructions on bf16 are
  /// emulated if need be.
  static bool runs(const cpu::Target &target);

private:
  struct Slot {
    std::vector<int64_t> shape; ///< logical; columns last
    int64_t stride = 0;         ///< elements from row to row
    int64_t rows = 0, width = 0;
    char type = 'f'; ///< f: f32, h: bf16, i: i32, l: i64, d: f64, b: i8
    int64_t size() const {
      return type == 'l' || type == 'd' ? 8 : type == 'h' ? 2 : type == 'b' ? 1 : 4;
    }
    int64_t bytes() const { return rows * stride * size(); }
  };
  void load(llvm::StringRef text, const cpu::Target &target, const KernelGenerator &generator);
  std::vector<Slot> describe(mlir::Operation *dispatch) const;

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> source, kernels;
  mlir::Operation *dispatch_ = nullptr;
  cpu::Kernel kernel_;
  std::vector<Slot> slots;
  unsigned operandCount = 0;
  int64_t items_ = 0;
  std::unique_ptr<llvm::orc::LLJIT> loader;
  ItemFunction function;
  Observer observer;
};

/// The nearest bf16, ties to even, as a float; NaN is unchanged.
float toBf16(float number);

/// Expects that kernels of `text` which are blocked for the smallest and the largest L2 cache have
/// different items and equal results, bit for bit, on every target of `targets()`.
void expectEqualForAnyL2(llvm::StringRef text, const KernelInputs &launch,
                         const KernelGenerator &generator);

/// Every target of this machine that has kernels of its own for f32.
std::vector<const cpu::Target *> targets();

/// These targets, and the one that multiplies pairs of whole numbers in one instruction.
std::vector<const cpu::Target *> wholeTargets();

/// The targets that multiply pairs of bf16, if this machine has AVX-512. Instructions that it lacks
/// are emulated from now on.
std::vector<const cpu::Target *> pairTargets();
/// Returns true if this machine multiplies pairs of bf16 without emulation.
bool hasPairs();

} // namespace sluice::test
