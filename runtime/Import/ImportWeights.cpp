// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Import/ImportWeights.h"

#include "DenseTensor.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>
#include <map>

namespace sluice::runtime {
namespace {

/// A tensor of the state.
struct StateTensor {
  const StateFile *file;
  std::string name; ///< in the file
  const ImportRule *user = nullptr, *dropper = nullptr;

  /// Starts a message.
  std::string show() const { return file->origin + ": tensor " + showJson(name); }
  const SafetensorsFile::StoredTensor &stored() const { return file->tensors.tensors().at(name); }
};

std::string countOthers(size_t others) {
  return others == 0 ? ""
                     : " (and " + std::to_string(others) +
                           (others == 1 ? " other like it)" : " others like it)");
}

class Importer {
public:
  Importer(const WeightMap &map, std::span<const StateFile> files,
           const std::optional<ImportModel> &model);

  ImportedWeights run();

private:
  void addTensors(const StateFile &file);
  void applyMove(const ImportRule &rule);
  void applyDrop(const ImportRule &rule);
  void applyFill(const ImportRule &rule);
  void requireFound(const ImportRule &rule, const NamePattern &pattern, bool isFound) const;

  StateTensor &getSource(const ImportRule &rule, const NamePattern &pattern, const NameMatch &match,
                         const std::string &first);
  DenseTensor load(const ImportRule &rule, const StateTensor &source) const;
  DenseTensor join(const ImportRule &rule, const std::vector<StateTensor *> &sources) const;
  void move(const ImportRule &rule, const NameMatch &match, const std::string &first);
  std::vector<int64_t> chooseParts(const ImportRule &rule, const std::vector<std::string> &names,
                                   const DenseTensor &whole, const std::string &source) const;
  std::string fillName(const ImportRule &rule, const NamePattern &pattern, const NameMatch &match,
                       const std::string &source) const;
  void add(const ImportRule &rule, const std::string &name, const std::string &source,
           DenseTensor tensor);
  const Shape *findShape(const std::string &name) const;
  void requireHead(const ImportRule &rule, const std::string &name, const std::string &source,
                   int64_t found) const;
  void requireShape(const ImportRule &rule, const std::string &name, const std::string &source,
                    const Shape &found) const;
  void requireAllUsed() const;
  void requireAllFilled() const;

  const WeightMap &map;
  const std::optional<ImportModel> &model;
  std::map<std::string, StateTensor> state; ///< by name without prefixes
  std::map<std::string, Shape> shapes;      ///< of the model's weights
  std::map<std::string, int64_t> heads;     ///< sizes of rotated heads, or 0, where known
  std::map<std::string, const ImportRule *> owners;
  ImportedWeights result;
};

Importer::Importer(const WeightMap &map, std::span<const StateFile> files,
                   const std::optional<ImportModel> &model)
    : map(map), model(model) {
  for (const StateFile &file : files) {
    addTensors(file);
  }
  if (model) {
    for (const WeightShape &weight : model->weights) {
      shapes[weight.name] = weight.shape;
      if (weight.rotatedHead) {
        heads[weight.name] = *weight.rotatedHead;
      }
    }
  }
}

void Importer::addTensors(const StateFile &file) {
  for (const auto &[name, stored] : file.tensors.tensors()) {
    std::string_view own = name;
    for (const std::string &prefix : map.prefixes) {
      own.remove_prefix(own.starts_with(prefix) ? prefix.size() : 0);
    }
    auto [found, isNew] = state.try_emplace(std::string(own), StateTensor{&file, name});
    if (!isNew) {
      throw UserError(file.origin + ": expected one tensor " + showJson(std::string(own)) +
                      ", found " + showJson(name) + " and, in " + found->second.file->origin +
                      ", " + showJson(found->second.name) +
                      "; leave a file out, or change \"prefixes\" of " + map.origin);
    }
  }
}

void Importer::requireFound(const ImportRule &rule, const NamePattern &pattern,
                            bool isFound) const {
  if (isFound || rule.isOptional) {
    return;
  }
  throw UserError(
      map.showPlace(rule) + ": expected a tensor of the state with a name such as " +
      showJson(pattern.text()) + ", found none" +
      (state.empty() ? "" : " (its first name is " + showJson(state.begin()->first) + ")") +
      "; change the rule, or add \"optional\": true where a state may lack it");
}

//===----------------------------------------------------------------------===//
// Rules with "from"
//===----------------------------------------------------------------------===//

StateTensor &Importer::getSource(const ImportRule &rule, const NamePattern &pattern,
                                 const NameMatch &match, const std::string &first) {
  std::optional<std::string> name = pattern.fill(match);
  auto found = name ? state.find(*name) : state.end();
  if (found == state.end()) {
    throw UserError(map.showPlace(rule) + ": expected a tensor " +
                    showJson(name.value_or(pattern.text())) + " to join with " + showJson(first) +
                    ", found none of this name; change the rule, or give the state's other files");
  }
  return found->second;
}

DenseTensor Importer::load(const ImportRule &rule, const StateTensor &source) const {
  DenseTensor tensor{source.stored().shape, source.file->tensors.convert(source.name)};
  if (rule.isTransposed && tensor.shape.size() != 2) {
    throw UserError(source.show() + ": expected two dimensions to transpose, as " +
                    map.showPlace(rule) + " demands, found shape " + showJson(tensor.shape) +
                    "; change the rule");
  }
  return rule.isTransposed ? transpose(tensor) : tensor;
}

DenseTensor Importer::join(const ImportRule &rule,
                           const std::vector<StateTensor *> &sources) const {
  std::vector<DenseTensor> tensors;
  for (const StateTensor *source : sources) {
    tensors.push_back(load(rule, *source));
    Shape expected = tensors.front().shape, &found = tensors.back().shape;
    bool isCut = sources.size() > 1 || rule.to.size() > 1 || !rule.parts.empty();
    if (isCut && found.size() <= rule.axis) {
      throw UserError(source->show() + ": expected at least " + std::to_string(rule.axis + 1) +
                      " dimensions for \"axis\": " + std::to_string(rule.axis) + " of " +
                      map.showPlace(rule) + ", found shape " + showJson(found) +
                      "; change the rule");
    }
    if (sources.size() > 1 && expected.size() == found.size()) {
      expected[rule.axis] = found[rule.axis];
    }
    if (expected != found) {
      throw UserError(source->show() + ": expected shape " + showJson(expected) +
                      ", to be joined with " + showJson(sources.front()->name) + " by " +
                      map.showPlace(rule) + ", found " + showJson(found) +
                      "; change \"axis\" or the rule");
    }
  }
  return tensors.size() == 1 ? std::move(tensors.front()) : concatenate(tensors, rule.axis);
}

std::string Importer::fillName(const ImportRule &rule, const NamePattern &pattern,
                               const NameMatch &match, const std::string &source) const {
  std::optional<std::string> name = pattern.fill(match);
  if (!name) {
    throw UserError(map.showPlace(rule) + ": expected numbers from 0 to 999999999 in " +
                    showJson(pattern.text()) + ", found others for " + showJson(source) +
                    "; change the rule");
  }
  if (*name == "__metadata__") {
    throw UserError(map.showPlace(rule) + ": expected \"to\" to give names of weights, found " +
                    showJson(*name) + " for tensor " + showJson(source) +
                    ", which safetensors files reserve; change the rule");
  }
  if (model && !shapes.contains(*name)) {
    throw UserError(map.showPlace(rule) + ": expected \"to\" to give names of weights of " +
                    model->origin + ", found " + showJson(*name) + " for tensor " +
                    showJson(source) +
                    ", which it does not have; give the spec the state's sizes and settings "
                    "(--set), or change the rule");
  }
  return *name;
}

const Shape *Importer::findShape(const std::string &name) const {
  auto found = shapes.find(name);
  return found == shapes.end() ? nullptr : &found->second;
}

/// Returns the extents of the weights along the rule's axis.
std::vector<int64_t> Importer::chooseParts(const ImportRule &rule,
                                           const std::vector<std::string> &names,
                                           const DenseTensor &whole,
                                           const std::string &source) const {
  int64_t extent = whole.shape[rule.axis], sum = 0;
  auto count = static_cast<int64_t>(names.size());
  std::vector<int64_t> parts = rule.parts;
  if (parts.empty() && !model) {
    if (extent % count != 0) {
      throw UserError(source + ": expected an extent that " + std::to_string(count) +
                      " weights divide along \"axis\": " + std::to_string(rule.axis) + " of " +
                      map.showPlace(rule) + ", found shape " + showJson(whole.shape) +
                      "; give \"parts\" in the rule, or --model");
    }
    parts.assign(names.size(), extent / count);
  }
  if (parts.empty()) {
    for (const std::string &name : names) {
      const Shape &shape = *findShape(name);
      if (shape.size() != whole.shape.size()) {
        requireShape(rule, name, source, whole.shape);
      }
      parts.push_back(shape[rule.axis]);
    }
  }
  for (int64_t part : parts) {
    sum += part;
  }
  if (sum != extent) {
    throw UserError(source + ": expected " + std::to_string(sum) +
                    " along \"axis\": " + std::to_string(rule.axis) + ", the sum of the parts " +
                    showJson(parts) + " of " + map.showPlace(rule) + ", found shape " +
                    showJson(whole.shape) + (rule.isTransposed ? " after it was transposed" : "") +
                    "; change \"transpose\", \"parts\" or the sizes of the spec");
  }
  return parts;
}

void Importer::requireShape(const ImportRule &rule, const std::string &name,
                            const std::string &source, const Shape &found) const {
  const Shape *shape = findShape(name);
  if (!shape || *shape == found) {
    return;
  }
  Shape inverse(found.rbegin(), found.rend());
  std::string remedy = "; give the spec the state's sizes (--set), or change the rule";
  if (*shape == inverse) {
    remedy = rule.isTransposed ? "; leave \"transpose\" out" : "; add \"transpose\": true";
  } else if (name.ends_with("position.weight") && found.size() == 2 && (*shape)[1] == found[1]) {
    remedy = "; give the spec the state's context: --set context=" + std::to_string(found[0]);
  } else if (name.ends_with("token.weight") && found.size() == 2 && (*shape)[1] == found[1]) {
    remedy = "; give the spec the state's vocabulary: --set vocabulary=" + std::to_string(found[0]);
  }
  throw UserError(source + ": expected shape " + showJson(*shape) + " for " + showJson(name) +
                  " of " + model->origin + ", found " + showJson(found) + " by " +
                  map.showPlace(rule) + remedy);
}

/// Requires that the model rotates heads of `found` rows. Heads of another size that divides the
/// rows would be reordered without an error, and give other scores.
void Importer::requireHead(const ImportRule &rule, const std::string &name,
                           const std::string &source, int64_t found) const {
  auto head = heads.find(name);
  if (head == heads.end() || head->second == found) {
    return;
  }
  std::string weight = showJson(name) + " of " + model->origin,
              place = "\"rotate_half\" of " + map.showPlace(rule);
  if (head->second == 0) {
    throw UserError(source + ": expected queries or keys of a layer with \"rotary\" for " + place +
                    ", found " + weight +
                    "; give the spec \"rotary\" (--set), or leave \"rotate_half\" out");
  }
  throw UserError(source + ": expected heads of " + std::to_string(head->second) + " for " + place +
                  ", the head size of " + weight + ", found " + std::to_string(found) +
                  "; give the model's head size (--size), or the spec the state's heads (--set)");
}

void Importer::add(const ImportRule &rule, const std::string &name, const std::string &source,
                   DenseTensor tensor) {
  requireShape(rule, name, source, tensor.shape);
  auto [owner, isNew] = owners.try_emplace(name, &rule);
  if (!isNew) {
    throw UserError(map.showPlace(rule) + ": expected each weight once, found " + showJson(name) +
                    " for a second time; the first rule for it is at " +
                    map.showPlace(*owner->second));
  }
  result.weights.push_back({name, std::move(tensor.shape), std::move(tensor.data)});
}

/// Applies a rule to the tensors that belong to one match.
void Importer::move(const ImportRule &rule, const NameMatch &match, const std::string &first) {
  std::vector<std::string> names;
  for (const NamePattern &pattern : rule.to) {
    names.push_back(fillName(rule, pattern, match, first));
  }
  std::vector<StateTensor *> sources;
  for (const NamePattern &pattern : rule.from) {
    sources.push_back(&getSource(rule, pattern, match, first));
    sources.back()->user = &rule;
  }
  DenseTensor whole = join(rule, sources);
  std::string source = sources.front()->show();
  bool isCut = names.size() > 1 || !rule.parts.empty();
  std::vector<int64_t> parts;
  if (isCut) {
    parts = chooseParts(rule, names, whole, source);
  }
  int64_t begin = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    DenseTensor part = isCut ? cut(whole, rule.axis, begin, parts[i]) : std::move(whole);
    begin += isCut ? parts[i] : 0;
    if (int64_t head = rule.rotatedHeads[i]; head > 0) {
      requireHead(rule, names[i], source, head);
      if (part.shape.empty() || part.shape[0] % head != 0) {
        throw UserError(source + ": expected rows of whole heads of " + std::to_string(head) +
                        " for \"rotate_half\" of " + map.showPlace(rule) + ", found shape " +
                        showJson(part.shape) + "; give the state's head size (--size)");
      }
      part = interleaveHalves(part, head);
    }
    add(rule, names[i], source, std::move(part));
  }
}

void Importer::applyMove(const ImportRule &rule) {
  bool isFound = false;
  std::vector<std::pair<NameMatch, std::string>> matches;
  for (const auto &[name, tensor] : state) {
    if (std::optional<NameMatch> match = rule.from.front().match(name)) {
      matches.emplace_back(std::move(*match), name);
      isFound = true;
    }
  }
  requireFound(rule, rule.from.front(), isFound);
  for (const auto &[match, name] : matches) {
    move(rule, match, name);
  }
}

//===----------------------------------------------------------------------===//
// Other rules
//===----------------------------------------------------------------------===//

void Importer::applyDrop(const ImportRule &rule) {
  bool isFound = false;
  for (auto &[name, tensor] : state) {
    if (!rule.dropped->match(name)) {
      continue;
    }
    isFound = true;
    tensor.dropper = &rule;
    if (!rule.original) {
      continue;
    }
    auto original = state.find(*rule.original);
    if (original == state.end()) {
      throw UserError(map.showPlace(rule) +
                      ": expected \"copy_of\" to name a tensor of the state, "
                      "found " +
                      showJson(*rule.original) + ", which it lacks; change the rule");
    }
    const StateTensor &other = original->second;
    if (&other == &tensor) {
      throw UserError(map.showPlace(rule) +
                      ": expected \"copy_of\" to name another tensor than the dropped one, found " +
                      showJson(*rule.original) + "; name the tensor that it is a copy of");
    }
    bool isCopy = tensor.stored().type == other.stored().type &&
                  tensor.stored().shape == other.stored().shape &&
                  std::ranges::equal(tensor.file->tensors.getBytes(tensor.name),
                                     other.file->tensors.getBytes(other.name));
    if (!isCopy) {
      throw UserError(tensor.show() + ": expected the numbers of " + showJson(other.name) +
                      ", as " + map.showPlace(rule) +
                      " leaves it out as a copy, found others; use a spec with a weight for it, "
                      "such as a head with \"tied\": false, and a rule with \"to\"");
    }
  }
  requireFound(rule, *rule.dropped, isFound);
}

void Importer::applyFill(const ImportRule &rule) {
  if (!model) {
    throw UserError(map.showPlace(rule) + ": expected a model, whose shapes \"fill\" needs, found "
                                          "none; give --model");
  }
  bool isFound = false;
  for (const WeightShape &weight : model->weights) {
    if (!rule.filled->match(weight.name)) {
      continue;
    }
    isFound = true;
    if (!owners.contains(weight.name)) {
      owners[weight.name] = &rule;
      result.weights.push_back(
          {weight.name, weight.shape, std::vector<float>(countElements(weight.shape), rule.value)});
      ++result.filled;
    }
  }
  if (!isFound) {
    throw UserError(map.showPlace(rule) + ": expected a weight of " + model->origin +
                    " with a name such as " + showJson(rule.filled->text()) +
                    ", found none; change the rule or leave it out");
  }
}

void Importer::requireAllUsed() const {
  std::vector<const StateTensor *> unused;
  for (const auto &[name, tensor] : state) {
    if (tensor.user && tensor.dropper) {
      throw UserError(map.showPlace(*tensor.dropper) +
                      ": expected \"drop\" to name tensors that "
                      "no rule uses, found " +
                      showJson(tensor.name) + ", which the rule at " + map.showPlace(*tensor.user) +
                      " uses; leave one out");
    }
    if (!tensor.user && !tensor.dropper) {
      unused.push_back(&tensor);
    }
  }
  if (!unused.empty()) {
    throw UserError(unused.front()->show() + " " + showJson(unused.front()->stored().shape) +
                    ": expected a rule of " + map.origin + " for it, found none" +
                    countOthers(unused.size() - 1) +
                    "; add a rule with \"from\", or with \"drop\" to leave it out");
  }
}

void Importer::requireAllFilled() const {
  std::vector<const WeightShape *> missing;
  for (const WeightShape &weight : model->weights) {
    if (!owners.contains(weight.name)) {
      missing.push_back(&weight);
    }
  }
  if (!missing.empty()) {
    throw UserError(map.origin + ": expected a rule that gives " + showJson(missing.front()->name) +
                    " " + showJson(missing.front()->shape) + " of " + model->origin +
                    ", found none" + countOthers(missing.size() - 1) +
                    "; give the spec the state's sizes and settings (--set), or add a rule");
  }
}

ImportedWeights Importer::run() {
  for (const ImportRule &rule : map.rules) {
    rule.dropped ? applyDrop(rule) : rule.filled ? void() : applyMove(rule);
  }
  requireAllUsed();
  for (const ImportRule &rule : map.rules) {
    rule.filled ? applyFill(rule) : void();
  }
  for (const auto &[name, tensor] : state) {
    result.used += tensor.user ? 1 : 0;
    result.dropped += tensor.dropper ? 1 : 0;
  }
  if (model) {
    requireAllFilled();
    std::map<std::string, size_t> order;
    for (const WeightShape &weight : model->weights) {
      order.emplace(weight.name, order.size());
    }
    std::ranges::sort(result.weights, {},
                      [&](const ImportedWeight &weight) { return order.at(weight.name); });
  }
  return std::move(result);
}

} // namespace

ImportedWeights importWeights(const WeightMap &map, std::span<const StateFile> files,
                              const std::optional<ImportModel> &model) {
  return Importer(map, files, model).run();
}

} // namespace sluice::runtime
