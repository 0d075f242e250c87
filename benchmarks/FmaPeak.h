// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// The machine's peak, measured by independent chains of fused multiply-adds in registers.
#pragma once

/// Operations a second of one thread, f32, with 512-bit and with 256-bit vectors; takes about 20
/// ms.
double fmaPeakAvx512();
double fmaPeakAvx2();
