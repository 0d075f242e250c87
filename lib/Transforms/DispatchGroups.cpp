// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Selects model ops that share a dispatch.
#include "DispatchGroups.h"

using namespace mlir;
using namespace sluice;

namespace {

class Grouping {
public:
  Grouping(func::FuncOp func, const RepeatedMaps &repeated, const StepValues *step)
      : repeated(repeated), step(step) {
    for (Operation &op : func.getBody().front()) {
      order[&op] = ops.size();
      ops.push_back(&op);
    }
  }

  std::vector<DispatchGroup> run();

private:
  static std::optional<FusionRole> findRole(Operation *op) {
    auto fusion = dyn_cast_or_null<FusionInterface>(op);
    return fusion ? std::optional(fusion.getFusionRole()) : std::nullopt;
  }
  /// Returns scale and width of the rows of a group of `op`, independent of their storage, and for
  /// ops of a step, the schedule of the rows.
  std::tuple<Attribute, int64_t, Attribute> getRowDomain(Operation *op) const {
    auto type = dyn_cast<SequenceType>(op->getResult(0).getType());
    type = type ? type : cast<SequenceType>(op->getOperand(0).getType());
    return {type.getScale(), type.getWidth(), step ? step->getSchedule(op) : Attribute()};
  }
  /// Returns the time at which an op runs: the order of its group, else its own position.
  size_t getTime(Operation *op) const {
    auto found = groupOf.find(op);
    return found == groupOf.end() ? order.lookup(op) : groups[found->second].order;
  }

  size_t start(Operation *op, DispatchGroup::Kind kind);
  void join(size_t group, Operation *op);
  bool isReady(Value operand, size_t group, bool identityOnly) const;
  bool readersRunLater(Operation *op, size_t group, bool throughMap = false) const;
  bool readsGroup(Operation *op, size_t group) const;
  void absorbConsumers(size_t group, bool epilogue);
  void absorbProducers(size_t group);
  void storeEnd(Value end);
  void storeEndsOfGroup(Value sequence, RowGroup group);
  void findStored();

  const RepeatedMaps &repeated;
  const StepValues *step;
  std::vector<Operation *> ops;
  DenseMap<Operation *, size_t> order;
  DenseMap<Operation *, size_t> groupOf;
  DenseSet<Operation *> stored; ///< maps that are separate launches
  std::vector<DispatchGroup> groups;
};

size_t Grouping::start(Operation *op, DispatchGroup::Kind kind) {
  groups.push_back({kind, order.lookup(op), {op}});
  groupOf[op] = groups.size() - 1;
  return groups.size() - 1;
}

void Grouping::join(size_t group, Operation *op) {
  groups[group].ops.push_back(op);
  groupOf[op] = group;
}

/// Returns true if `group` can read `operand`: it is computed in the group, row by row, or stored
/// before the group runs. An epilogue accepts no maps.
bool Grouping::isReady(Value operand, size_t group, bool identityOnly) const {
  Value root = resolveAccess(operand).root;
  if (identityOnly && root != operand) {
    return false;
  }
  Operation *def = root.getDefiningOp();
  if (!def || isa<ReadOp>(def)) {
    return true;
  }
  auto found = groupOf.find(def);
  if (found != groupOf.end() && found->second == group) {
    return root == operand;
  }
  return getTime(def) < groups[group].order;
}

static RowGroup findRowGroup(Operation *op) {
  auto fusion = dyn_cast<FusionInterface>(op);
  return fusion ? fusion.getRowGroup() : RowGroup();
}

/// Returns true if every reader of `op` runs later than `group`, or in it at the same row. A reader
/// in the group that reads through a map or a window needs other rows, which must be stored by
/// then; a stored map is read at the reader's own row.
bool Grouping::readersRunLater(Operation *op, size_t group, bool throughMap) const {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    bool isMap = findRole(user) == FusionRole::Access;
    if (isMap && !readersRunLater(user, group, /*throughMap=*/true)) {
      return false;
    }
    if (isMap && !stored.contains(user)) {
      return true;
    }
    auto found = groupOf.find(user);
    bool inside = found != groupOf.end() && found->second == group;
    bool readsOwnRow = !throughMap && findRowGroup(user).isOwnRow();
    return inside ? readsOwnRow : getTime(user) > groups[group].order;
  });
}

/// Returns true if `op` reads windows of values that `group` computes.
bool Grouping::readsGroup(Operation *op, size_t group) const {
  if (findRowGroup(op).isOwnRow()) {
    return false;
  }
  auto found = groupOf.find(resolveAccess(op->getOperand(0)).root.getDefiningOp());
  return found != groupOf.end() && found->second == group;
}

static bool isReadInBodies(Operation *op) {
  auto fusion = dyn_cast<FusionInterface>(op);
  return !fusion || !fusion.yieldsGroup();
}

void Grouping::absorbConsumers(size_t group, bool epilogue) {
  if (!isReadInBodies(groups[group].ops.front())) {
    return;
  }
  auto domain = getRowDomain(groups[group].ops.front());
  for (size_t i = 0; i < groups[group].ops.size(); ++i) {
    SmallVector<Operation *> users(groups[group].ops[i]->getUsers());
    llvm::sort(users,
               [&](Operation *a, Operation *b) { return order.lookup(a) < order.lookup(b); });
    for (Operation *user : users) {
      if (groupOf.contains(user) || findRole(user) != FusionRole::Elementwise ||
          getRowDomain(user) != domain) {
        continue;
      }
      bool ready =
          llvm::all_of(user->getOperands(), [&](Value v) { return isReady(v, group, epilogue); });
      if (ready) {
        join(group, user);
      }
    }
  }
}

void Grouping::absorbProducers(size_t group) {
  auto domain = getRowDomain(groups[group].ops.front());
  for (size_t i = 0; i < groups[group].ops.size(); ++i) {
    for (Value operand : groups[group].ops[i]->getOperands()) {
      Operation *def = operand.getDefiningOp();
      std::optional<FusionRole> role = findRole(def);
      bool fits = role == FusionRole::Elementwise || role == FusionRole::Rows;
      if (!fits || !isReadInBodies(def) || groupOf.contains(def) || getRowDomain(def) != domain ||
          readsGroup(def, group) || !readersRunLater(def, group)) {
        continue;
      }
      join(group, def);
    }
  }
}

/// Stores the map that ends a chain of maps if the chain cannot be composed further. The stored map
/// reads its operand through a chain that starts at its own rows.
void Grouping::storeEnd(Value end) {
  Operation *def = end.getDefiningOp();
  if (findRole(def) == FusionRole::Access && stored.insert(def).second) {
    storeEnd(resolveAccess(end).root);
  }
}

/// Finds maps whose rows must be stored: if a reader accepts no maps, or if a chain through one
/// cannot be expressed. Stored rows end at the last valid position, but groups may read further, so
/// groups of such a chain are read row by row instead.
void Grouping::findStored() {
  for (Operation *op : ops) {
    std::optional<FusionRole> role = findRole(op);
    if (role == FusionRole::Access) {
      continue;
    }
    bool takesMaps =
        role == FusionRole::Elementwise || role == FusionRole::Rows || role == FusionRole::Anchor;
    RowGroup group = findRowGroup(op);
    for (OpOperand &operand : op->getOpOperands()) {
      if (!group.isOwnRow() && operand.getOperandNumber() == 0) {
        storeEndsOfGroup(operand.get(), group);
      } else {
        storeEnd(takesMaps ? resolveAccess(operand.get()).root : operand.get());
      }
    }
  }
}

/// Members are read one by one if no single access reads them all.
void Grouping::storeEndsOfGroup(Value sequence, RowGroup group) {
  for (int64_t i = 0; !readsWholeGroups(sequence, group) && i < group.window; ++i) {
    storeEnd(resolveMember(sequence, group, i).root);
  }
}

std::vector<DispatchGroup> Grouping::run() {
  findStored();
  for (Operation *op : ops) {
    std::optional<FusionRole> role = findRole(op);
    if (role == FusionRole::Contraction) {
      size_t group = start(op, DispatchGroup::Kind::Contraction);
      for (Operation *map : repeated.lookup(op)) {
        join(group, map);
      }
    } else if (role == FusionRole::Alone) {
      start(op, DispatchGroup::Kind::Alone);
    }
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].kind == DispatchGroup::Kind::Contraction) {
      absorbConsumers(i, /*epilogue=*/true);
    }
  }
  for (Operation *op : ops) {
    if (findRole(op) == FusionRole::Anchor) {
      size_t group = start(op, DispatchGroup::Kind::Rows);
      absorbProducers(group);
      absorbConsumers(group, /*epilogue=*/false);
    }
  }
  for (Operation *op : ops) {
    std::optional<FusionRole> role = findRole(op);
    if (!role || groupOf.contains(op) || (role == FusionRole::Access && !stored.contains(op))) {
      continue;
    }
    size_t group = start(op, DispatchGroup::Kind::Rows);
    if (role != FusionRole::Access) {
      absorbConsumers(group, /*epilogue=*/false);
    }
  }
  for (DispatchGroup &group : groups) {
    llvm::sort(group.ops,
               [&](Operation *a, Operation *b) { return order.lookup(a) < order.lookup(b); });
  }
  llvm::sort(groups,
             [](const DispatchGroup &a, const DispatchGroup &b) { return a.order < b.order; });
  return std::move(groups);
}

} // namespace

std::vector<DispatchGroup> sluice::formDispatchGroups(func::FuncOp func,
                                                      const RepeatedMaps &repeated,
                                                      const StepValues *step) {
  return Grouping(func, repeated, step).run();
}
