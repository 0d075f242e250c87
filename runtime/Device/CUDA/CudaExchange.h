// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges ranges of the arenas of several GPUs, one per process, by NCCL.
#pragma once

#include "CudaDriver.h"
#include "sluice/Runtime/Device/RangeExchange.h"

#include <functional>
#include <memory>

namespace sluice::runtime::cuda {

/// The device of an exchange.
struct ExchangeDevice {
  const Driver &driver;
  Stream main;  ///< the launches' stream
  int priority; ///< of the exchange's stream
  /// Makes the device's context current for the calling thread.
  std::function<void()> enter;
  /// Returns the address of a range of the arena that is read or written. It holds until the next
  /// launch.
  std::function<Address(int64_t offset, int64_t bytes)> locate;
  /// Returns the event of a bucket's collective in the last entry with collectives.
  std::function<Event(int64_t bucket)> getMark;
  /// Gives the device the exchange, which it confirms before the host waits for the main stream;
  /// null when the exchange ends.
  std::function<void(RangeExchange *)> attach;
};

/// Opens NCCL and joins the group, which all its processes do. Transfers run on a stream of their
/// own: it waits for an event of the launches that write a bucket, and the main stream waits for
/// the transfers' event. `confirm` waits for this event on the host, as a transfer that is aborted
/// ends too. Throws UserError, and LostPeerError after the group's limit.
std::unique_ptr<RangeExchange> joinByNccl(const ExchangeDevice &device, const ExchangeGroup &group);

} // namespace sluice::runtime::cuda
