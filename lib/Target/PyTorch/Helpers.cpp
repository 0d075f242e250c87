// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Helpers.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

namespace sluice::pytorch {

namespace {
struct Helper {
  llvm::StringRef name, calls; ///< `calls`: names of helpers, separated by spaces
  llvm::StringRef text;
};
} // namespace

/// In the order of the exported file. B is the number of texts; a sequence is [B, rows, columns],
/// or [B, rows] with one number per row, and is null (zero) in all other rows.
static const Helper helpers[] = {
    {"bf16", "", R"(
def bf16(x):
    """Rounds to bfloat16; the products of rounded factors are added in float32."""
    return x.bfloat16().float()
)"},
    {"straight_through", "", R"(
def straight_through(value, surrogate):
    """The value, with the gradient of the surrogate."""
    value = value.detach() if torch.is_tensor(value) else value
    return value + (surrogate - surrogate.detach())
)"},
    {"fit_rows", "", R"(
def fit_rows(x, rows):
    """The first rows of x, which is null after its last row."""
    missing = rows - x.shape[1]
    return F.pad(x, (0, 0) * (x.dim() - 2) + (0, missing)) if missing > 0 else x[:, :rows]
)"},
    {"shift", "", R"(
def shift(x, by, null=0.0):
    """Row p is row p - by of x."""
    return F.pad(x, (0, 0) * (x.dim() - 2) + (by, 0), value=null) if by >= 0 else x[:, -by:]
)"},
    {"start", "", R"(
def start(x, null, by):
    """Row p is row p - by of x, and the learned row `null` for p < by."""
    first = null.expand(x.shape[0], min(by, x.shape[1]), -1)
    return torch.cat((first, x[:, : x.shape[1] - first.shape[1]]), 1)
)"},
    {"windows", "", R"(
def windows(x, groups, factor, window, null=0.0):
    """[B, groups, window, columns]: group m has the `window` rows before row (m + 1) factor."""
    before = max(window - factor, 0)
    after = max(groups * factor - x.shape[1], 0)
    x = F.pad(x, (0, 0, before, after), value=null)[:, max(factor - window, 0):]
    last = (groups - 1) * factor + window
    return x[:, :last].unfold(1, window, factor).transpose(2, 3)
)"},
    {"max_windows", "windows", R"(
def max_windows(x, groups, factor, window):
    """The maxima of windows, without null rows; 0 where all rows are null."""
    found = windows(x, groups, factor, window, null=-math.inf).amax(2)
    return torch.where(found == -math.inf, 0.0, found)
)"},
    {"split_heads", "", R"(
def split_heads(x, heads):
    """[B, rows, heads D] as [B, heads, rows, D]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)
)"},
    {"rotate", "", R"(
def rotate(x, table):
    """Rotates each pair of columns (2i, 2i + 1) by the angle with this cosine and sine."""
    cosine, sine = table[: x.shape[-2], 0::2], table[: x.shape[-2], 1::2]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)
)"},
    {"distances", "", R"(
def distances(queries, keys, query=1, key=1, offset=0, first=0, rows=1):
    """[queries, keys]: the row of a table by the distance query p - key q + offset."""
    between = query * torch.arange(queries)[:, None] - key * torch.arange(keys) + offset
    return (between - first).clamp(0, rows - 1)
)"},
    {"distance_product", "split_heads", R"(
def distance_product(query, rows, heads, distance):
    """The product of each query and the row of its distance to each key, per head."""
    by_row = split_heads(query, heads) @ (
        split_heads(rows, heads) if rows.dim() == 3 else rows).transpose(-1, -2)
    index = distance.to(by_row.device).expand(*by_row.shape[:2], *distance.shape)
    return by_row.gather(-1, index)
)"},
    {"distance_bias", "", R"(
def distance_bias(table, distance):
    """[heads, queries, keys] from a table [rows, heads]."""
    return table[distance.to(table.device)].permute(2, 0, 1)
)"},
    {"attention", "split_heads rotate", R"(
def attention(query, key, value, heads, kv_heads, mask, score, rotary=None, count=None,
              ranges=None, terms=()):
    """Softmax over the keys q with mask(p, q, n) of score(products, p, q, head, *terms).

    With `count` text b has count[b] keys. With `ranges` query p has the keys first <= q < end. A
    query without keys gives zeros.
    """
    query = split_heads(query, heads)
    key, value = split_heads(key, kv_heads), split_heads(value, kv_heads)
    if rotary is not None:
        query, key = rotate(query, rotary), rotate(key, rotary)
    key, value = (x.repeat_interleave(heads // kv_heads, 1) for x in (key, value))
    p = torch.arange(query.shape[2], device=query.device)[:, None]
    q = torch.arange(key.shape[2], device=query.device)
    h = torch.arange(heads, device=query.device)[:, None, None]
    n = key.shape[2] if count is None else count[:, None, None, None]
    scores = score(query @ key.transpose(-1, -2), p, q, h, *terms)
    seen = torch.as_tensor(mask(p, q, n), device=query.device) & (q < n)
    if ranges is not None:
        first, end = (x[:, None, :, None] for x in ranges)
        seen = seen & (q >= first) & (q < end)
    weights = torch.softmax(scores.masked_fill(~seen, torch.finfo(scores.dtype).min), -1) * seen
    return (weights @ value).transpose(1, 2).flatten(2)
)"},
    {"hashed_buckets", "", R"(
def hashed_buckets(x, rotations, hashes, stage, given):
    """[B, rows, hashes]: for each hash argmax [R x; -R x]; or the given buckets of the stage."""
    if given is not None:
        return given[stage]
    y = (x.detach() @ rotations.T).unflatten(-1, (hashes, -1))
    return torch.cat((y, -y), -1).argmax(-1)
)"},
    {"hashed_attention", "split_heads", R"(
def hashed_attention(x, value, buckets, heads, chunk):
    """Attention of each row of x to the earlier rows in its buckets. All pairs are scored.

    The rank of a row is the number of earlier rows in its bucket. A row has the rows whose rank is
    in its chunk of ranks or in the previous one, twice if two hashes find them; if there are none,
    itself.
    """
    rows = x.shape[1]
    same = buckets[:, :, None] == buckets[:, None]
    same = same & torch.ones(rows, rows, dtype=torch.bool, device=x.device).tril(-1)[..., None]
    chunks = same.sum(2) // chunk
    near = chunks[:, :, None] - chunks[:, None] <= 1
    found = (same & near).sum(-1)
    found = found + torch.diag_embed((found.sum(-1) == 0).long())
    x, value = split_heads(x, heads), split_heads(value, heads)
    scores = x @ x.transpose(-1, -2) / math.sqrt(x.shape[-1]) + found.log()[:, None]
    return (torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)
)"},
    {"take_rows", "", R"(
def take_rows(x, index):
    """Row i is row index[b, i] of x, null where x has no such row."""
    found = (index >= 0) & (index < x.shape[1])
    index = index.clamp(0, x.shape[1] - 1)
    if x.dim() == 2:
        return torch.where(found, x.gather(1, index), 0)
    return torch.where(found[..., None],
                       x.gather(1, index[..., None].expand(-1, -1, x.shape[2])), 0)
)"},
    {"segment", "", R"(
def segment(bits, rows, after, count=None, spare=0):
    """Boundaries up to each row, and the row of each boundary: at most `rows` - `spare`.

    `after` is the row of a boundary that does not exist. With `count` the last of count[b] rows is
    a boundary.
    """
    bits = bits.detach().reshape(bits.shape[:2]) > 0.5
    t = torch.arange(bits.shape[1], device=bits.device)
    if count is not None:
        bits = (bits & (t < count[:, None])) | (t == count[:, None] - 1)
    counts = bits.long().cumsum(1)
    found = counts[:, -1].max() + spare
    if found > rows:
        raise ValueError(f"expected at most {rows} rows of segments, found {found}")
    ends = torch.full((bits.shape[0], rows + 1), after, device=bits.device)
    ends.scatter_(1, torch.where(bits, counts - 1, rows), t.expand_as(counts))
    return counts, ends[:, :rows]
)"},
    {"segment_members", "", R"(
def segment_members(counts, ends, starts):
    """[B, segments, rows]: 1 where a row is in a closed segment."""
    own = counts - 1 if starts else F.pad(counts[:, :-1], (1, 0))
    m = torch.arange(ends.shape[1], device=counts.device)[:, None]
    closed = m + (1 if starts else 0) < counts[:, -1, None, None]
    return ((own[:, None] == m) & closed).float()
)"},
    {"pool_segments", "segment_members", R"(
def pool_segments(x, bits, counts, ends, starts=False, total=False):
    """The mean, or the total, of each closed segment's rows.

    The gradient of a mean's bits is straight-through: a row's weight is 1 - (m - g), where g is the
    number of bits before the row.
    """
    members = segment_members(counts, ends, starts)
    if total:
        return members @ x
    bits = bits.reshape(bits.shape[:2])
    before = bits.cumsum(1) - (1 if starts else bits)
    weights = members * (1 + before - before.detach())[:, None]
    return weights @ x / weights.sum(2, keepdim=True).clamp(min=1)
)"},
    {"spread_segments", "take_rows", R"(
def spread_segments(x, counts, by, own=False):
    """Row t is row counts[t] - by of x; with `own` row counts[t - 1] - by."""
    return take_rows(x, (F.pad(counts[:, :-1], (1, 0)) if own else counts) - by)
)"},
    {"head_product", "", R"(
def head_product(query, key, heads):
    """Scaled products of each head's columns, which are interleaved: i heads + h."""
    products = (query * key).unflatten(-1, (-1, heads)).sum(-2)
    return products / math.sqrt(query.shape[-1] // heads)
)"},
    {"attend_parts", "head_product", R"(
def attend_parts(query, keys, values, heads):
    """Attention of each row to several keys and values at its own position."""
    scores = torch.stack([head_product(query, key, heads) for key in keys])
    weights = torch.softmax(scores, 0).repeat(1, 1, 1, query.shape[-1] // heads)
    return (weights * torch.stack(values)).sum(0)
)"},
    {"attend_segments", "segment_members", R"(
def attend_segments(query, key, value, counts, ends, heads):
    """Attention of each segment's query to the rows of the segment; heads are interleaved."""
    def split(x):
        return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)
    seen = segment_members(counts, ends, False).bool()[:, None]
    scores = split(query) @ split(key).transpose(-1, -2) / math.sqrt(query.shape[-1] // heads)
    weights = torch.softmax(scores.masked_fill(~seen, torch.finfo(scores.dtype).min), -1) * seen
    return (weights @ split(value)).permute(0, 2, 3, 1).flatten(2)
)"},
    {"recurrence", "", R"(
def recurrence(inputs, cell, states, columns, weight=None, reset=None, every=0, at=0, count=None,
               reverse=False):
    """The states of every row: cell(*sums, *states) with the states of the row before.

    With `weight` its product with the first state is added to the first sums.
    """
    x = torch.cat(inputs, -1)
    zeros = x.new_zeros(x.shape[0], columns)
    before, rows = [zeros] * states, []
    for p in range(x.shape[1])[::-1] if reverse else range(x.shape[1]):
        if every and (p - at) % every == 0:
            before = [zeros] * states
        if reset is not None:
            cut = reset.reshape(x.shape[:2])[:, p, None] > 0.5
            before = [torch.where(cut, 0.0, state) for state in before]
        sums = x[:, p]
        if weight is not None:
            added = before[0] @ weight.T
            sums = sums + F.pad(added, (0, sums.shape[-1] - added.shape[-1]))
        before = cell(*sums.split(columns, -1), *before)
        if count is not None:
            before = [torch.where(p < count[:, None], state, 0.0) for state in before]
        rows.append(before)
    return [torch.stack(row, 1) for row in zip(*(rows[::-1] if reverse else rows))]
)"},
    {"fit", "", R"(
def fit(x, at, columns):
    """Column c is column c - at of x, zero where x has no such column."""
    x = F.pad(x, (at, 0)) if at >= 0 else x[..., -at:]
    return F.pad(x, (0, max(columns - x.shape[-1], 0)))[..., :columns]
)"},
    {"place", "", R"(
def place(x, places, number):
    """Row p of x at the place places[p] of `number` places, zeros elsewhere."""
    here = places.detach()[..., None] == torch.arange(number, device=x.device)
    return (here[..., None] * x[..., None, :]).flatten(2)
)"},
    {"graph_sum", "", R"(
def graph_sum(x, adjacency, left=None, right=None):
    """L (A + I) R x, for an adjacency matrix A [B, rows, rows] and diagonal matrices L and R."""
    x = x if right is None else right.detach()[..., None] * x
    y = x + adjacency.to(x.dtype) @ x
    return y if left is None else left.detach()[..., None] * y
)"},
    {"graph_attention", "", R"(
def graph_attention(source, target, value, seen, leak):
    """Softmax over q of leaky_relu(source[p] + target[q]), for p and the q with seen[b, p, q]."""
    own = torch.eye(seen.shape[-1], dtype=torch.bool, device=seen.device)
    scores = F.leaky_relu(source[:, :, None] + target[:, None, :], leak)
    return torch.softmax(scores.masked_fill(~(seen | own), -math.inf), -1) @ value
)"},
    {"in_ranges", "", R"(
def in_ranges(first, end, rows):
    """[B, rows, rows]: whether first[b, p] <= q < end[b, p]."""
    q = torch.arange(rows, device=first.device)
    return (q >= first[..., None]) & (q < end[..., None])
)"},
    {"resample", "", R"(
def resample(x, lengths, counts, rows, segments, linear=False, transposed=False):
    """Rows of texts from rows of their segments, T x, or T^t x, by the numbers of both.

    Row p of T [rows, segments] has a one at segment floor(p counts / lengths). With `linear` it
    interpolates between the centers of segments.
    """
    p = torch.arange(rows, device=x.device)
    lengths, counts = (y.clamp(min=1).long()[:, None] for y in (lengths, counts))
    if linear:
        place = ((2 * p + 1) * counts - lengths).clamp(min=0)
        at, part = place // (2 * lengths), place % (2 * lengths) / (2 * lengths)
        part = torch.where(at >= counts - 1, 0.0, part)
    else:
        at, part = p * counts // lengths, torch.zeros(1, device=x.device)
    at, q = at.minimum(counts - 1)[..., None], torch.arange(segments, device=x.device)
    part = part[..., None]
    weights = torch.where(q == at, 1 - part, torch.where(q == at + 1, part, 0))
    weights = weights * (p < lengths)[..., None]
    return (weights.transpose(1, 2) if transposed else weights).to(x.dtype) @ x
)"},
    {"entropy", "", R"(
def entropy(logits):
    """The entropy of softmax(logits) in nats, one column, without a gradient."""
    logs = torch.log_softmax(logits.detach(), -1)
    return -(logs.exp() * logs).sum(-1, keepdim=True)
)"},
    {"cross_entropy", "", R"(
def cross_entropy(logits, tokens, offset, first=0, smoothing=0.0):
    """[B, rows]: nats of token p + offset in row p; 0 for p < first and for padding, -1."""
    wanted = tokens[:, offset:offset + logits.shape[1]]
    losses = F.cross_entropy(logits.transpose(1, 2), wanted, ignore_index=-1, reduction="none",
                             label_smoothing=smoothing)
    return torch.where(torch.arange(losses.shape[1], device=losses.device) < first, 0.0, losses)
)"},
    {"soft_cross_entropy", "", R"(
def soft_cross_entropy(logits, targets, first=0):
    """[B, rows]: cross-entropy against the distributions of `targets`; 0 for p < first."""
    losses = -(targets * torch.log_softmax(logits, -1)).sum(-1)
    return torch.where(torch.arange(losses.shape[1], device=losses.device) < first, 0.0, losses)
)"},
    {"contrast", "", R"(
def contrast(x, candidates, valid=None, parts=1):
    """[B, rows]: nats of the next row of its text among the candidates of all texts."""
    batch, rows = x.shape[:2]
    valid = x.new_ones(batch, rows) if valid is None else valid.reshape(batch, rows)
    scores = x.flatten(0, 1) @ candidates.flatten(0, 1).T
    scores = scores.masked_fill(valid.flatten() == 0, -math.inf)
    right = (x * F.pad(candidates[:, 1:], (0, 0, 0, 1))).sum(-1)
    losses = torch.logsumexp(scores, -1).view(batch, rows) - right
    scored = F.pad(valid[:, 1:] != 0, (0, 1))
    scored = scored & (torch.arange(batch, device=x.device)[:, None] < batch // parts)
    return torch.where(scored, losses, 0.0)
)"},
    {"counted_rows", "", R"(
def counted_rows(batch, rows, first, every, parts, device):
    """1 in every `every`-th row from `first` on, in the first batch / parts texts, else 0."""
    p, b = torch.arange(rows, device=device), torch.arange(batch, device=device)[:, None]
    return ((p >= first) & ((p - first) % every == 0) & (b < batch // parts)).float()
)"},
    {"mean_loss", "", R"(
def mean_loss(losses, first=0, weights=None):
    """The sum of losses, divided by the number of rows p >= first, or by the sum of weights."""
    if weights is None:
        return losses.sum() / max(losses[:, first:].numel(), 1)
    total = weights.sum()
    return losses.sum() / torch.where(total == 0, 1.0, total)
)"},
    {"mean_line_loss", "", R"(
def mean_line_loss(losses, tokens, first=0, weights=None):
    """The weighted mean of losses in rows p >= first whose token p + 1 is no padding."""
    p = torch.arange(losses.shape[1], device=losses.device)
    scored = (tokens[:, 1:] >= 0) & (p >= first)
    weights = scored.float() if weights is None else torch.where(scored, weights, 0.0)
    total = weights.sum()
    return torch.where(scored, losses, 0.0).sum() / torch.where(total == 0, 1.0, total)
)"},
    {"angle_table", "", R"(
def angle_table(rows, columns, base, kind, stride=1):
    """Row p: for each i two numbers for the angle p stride base^(-2i / columns).

    They are cosine and sine for "rotary", sine and cosine for "sinusoidal".
    """
    power = torch.arange(0, columns, 2, dtype=torch.float64) / columns
    angle = torch.arange(rows, dtype=torch.float64)[:, None] * stride * base ** -power
    pair = (angle.cos(), angle.sin()) if kind == "rotary" else (angle.sin(), angle.cos())
    return torch.stack(pair, -1).flatten(1)[:, :columns].float()
)"},
    {"rotation_table", "", R"(
def rotation_table(rows, columns, seed, name):
    """Normal numbers, rounded to bfloat16: Box and Muller of Philox4x32-10 draws.

    The key is the seed; the counter is the number of four draws, the FNV-1a of the name, and 0.
    """
    stream, low = 2166136261, 2**32 - 1
    for byte in name.encode():
        stream = (stream ^ byte) * 16777619 & low
    four = torch.arange((rows * columns + 1) // 2)
    c = [four & low, four >> 32, torch.full_like(four, stream), torch.zeros_like(four)]
    k = [seed & low, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32 & low) ^ c[1] ^ k[0], b & low, (a >> 32 & low) ^ c[3] ^ k[1], a & low]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    draws = (torch.stack(c, 1).flatten() >> 8).double() * 2.0**-24
    numbers = torch.sqrt(-2 * torch.log(1 - draws[0::2])) * torch.cos(2 * math.pi * draws[1::2])
    part, exponent = torch.frexp(numbers[:rows * columns])  # one rounding, not first to float32
    return torch.ldexp((part * 256).round(), exponent - 8).float().view(rows, columns)
)"},
    {"member_table", "", R"(
def member_table(shape, members):
    """1 in the rows of `members`, else 0."""
    table = torch.zeros(shape)
    table[members] = 1.0
    return table
)"},
};

void addHelper(std::set<std::string> &used, llvm::StringRef name) {
  if (!used.insert(name.str()).second) {
    return;
  }
  const Helper *found =
      llvm::find_if(helpers, [&](const Helper &each) { return each.name == name; });
  llvm::SmallVector<llvm::StringRef> calls;
  found->calls.split(calls, ' ', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef call : calls) {
    addHelper(used, call);
  }
}

bool isHelper(llvm::StringRef name) {
  return llvm::any_of(helpers, [&](const Helper &each) { return each.name == name; });
}

std::string printHelpers(const std::set<std::string> &used) {
  std::string text;
  for (const Helper &each : helpers) {
    if (used.contains(each.name.str())) {
      text += "\n" + each.text.str();
    }
  }
  return text;
}

} // namespace sluice::pytorch
