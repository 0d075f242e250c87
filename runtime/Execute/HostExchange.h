// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges ranges of arenas that are host memory, by the messages of a group of processes.
#pragma once

#include "sluice/Runtime/Device/Device.h"
#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <memory>

namespace sluice::runtime {

/// Joins the devices of the group's processes: devices on GPUs directly, and arenas in host memory
/// by `ProcessGroup::exchange`. Both arguments must outlive the result. Throws UserError.
std::unique_ptr<RangeExchange> joinDevices(Device &device, ProcessGroup &group);

} // namespace sluice::runtime
