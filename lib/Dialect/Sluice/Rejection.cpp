// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Dialect/Sluice/Rejection.h"

#include "mlir/IR/Location.h"

using namespace mlir;
using namespace sluice;

InFlightDiagnostic sluice::emitRejection(Operation *op, const Twine &message, StringRef forUser) {
  InFlightDiagnostic error = op->emitError(message);
  error.getUnderlyingDiagnostic()->getMetadata().emplace_back(forUser);
  return error;
}

InFlightDiagnostic sluice::emitRejection(Operation *op, const Twine &message) {
  return emitRejection(op, message, /*forUser=*/"");
}

std::string sluice::getRejection(Diagnostic &diagnostic) {
  if (diagnostic.getMetadata().empty()) {
    return "";
  }
  std::string forUser = diagnostic.getMetadata().front().getAsString().str();
  if (!forUser.empty()) {
    return forUser;
  }
  auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
  std::string at = place ? (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" +
                            Twine(place.getColumn()) + ": ")
                               .str()
                         : "";
  return at + diagnostic.str();
}
