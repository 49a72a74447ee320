#include "tests/plan/reference_interpreter.h"

#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/rng.h"

namespace tutti {
namespace {

// One element: the value under a commutative operation and under one that tells orders apart.
struct Element {
  uint64_t sum, ordered;
  bool operator==(const Element&) const = default;
};
using Chunk = std::vector<Element>;
using Message = std::vector<Chunk>;

constexpr Element kGarbage{0xdeadbeefdeadbeef, 0xdeadbeefdeadbeef};

Element folded(Element a, Element b) { return {a.sum + b.sum, a.ordered * 3 + b.ordered * 5 + 1}; }
Element lifted(Element a) { return {a.sum * 11, a.ordered * 11 + 2}; }       // as premul-sum scales the own input
Element finished(Element a) { return {a.sum * 5 + 7, a.ordered * 13 + 3}; }  // as avg divides

struct Trouble {
  std::string what;
};

class Reference {
 public:
  Reference(const Shape& shape, std::span<const Plan> plans, const ReferenceRun& run)
      : shape_(shape),
        plans_(plans),
        run_(run),
        rng_(run.seed),
        n_(shape.nranks),
        per_block_(plans[0].chunks / blocks()) {
    if (plans[0].chunks % blocks() != 0) throw Trouble{"chunks do not fill the blocks"};
    for (uint32_t r = 0; r < n_; ++r) make_memory(r);
  }

  void run() {
    for (uint32_t r = 0; r < n_; ++r) {
      if (plans_[r].chunks != plans_[0].chunks) throw Trouble{"chunks differ"};
      for (const Lane& lane : plans_[r].lanes) lanes_.push_back({r, &plans_[r], &lane});
    }
    uint32_t idle = 0;  // turns without any progress
    uint64_t turns = 0;
    for (size_t next = 0; idle < 20 * lanes_.size() + 20; ++next) {
      if (++turns > 200000) throw Trouble{"endless"};
      const size_t turn = run_.seed ? rng_.below(lanes_.size()) : next % lanes_.size();
      idle = take_turn(lanes_[turn]) ? 0 : idle + 1;
    }
    for (const LaneState& lane : lanes_)
      if (lane.move < lane.lane->moves.size()) throw Trouble{"deadlock"};
    for (const auto& [name, fifo] : fifos_)
      if (!fifo.empty()) throw Trouble{"messages left over"};
    check();
  }

 private:
  struct LaneState {
    uint32_t rank;
    const Plan* plan;
    const Lane* lane;
    uint32_t move = 0, iteration = 0;
    bool folded = false;
    uint32_t sent = 0;
    Message result;
  };
  using Name = std::tuple<uint32_t, uint32_t, uint32_t>;

  bool wide_in() const {
    return shape_.collective == Collective::reduce_scatter || shape_.collective == Collective::scatter;
  }
  bool wide_out() const {
    return shape_.collective == Collective::all_gather || shape_.collective == Collective::gather;
  }
  bool both_wide() const { return shape_.collective == Collective::all_to_all; }
  uint32_t blocks() const { return wide_in() || wide_out() || both_wide() ? shape_.nranks : 1; }
  bool reduction() const {
    return shape_.collective == Collective::all_reduce || shape_.collective == Collective::reduce ||
           shape_.collective == Collective::reduce_scatter;
  }
  bool owns(uint32_t rank, Buffer b) const {
    if (b == Buffer::in && (shape_.collective == Collective::broadcast || shape_.collective == Collective::scatter))
      return rank == shape_.root;
    if (b == Buffer::out && (shape_.collective == Collective::reduce || shape_.collective == Collective::gather))
      return rank == shape_.root;
    return true;
  }

  // Sizes that tell chunks apart: 1 to 4 elements.
  size_t wide_size(uint32_t chunk) const { return 1 + (chunk * 7 + chunk / 3) % 4; }
  size_t pair_size(uint32_t from, uint32_t to, uint32_t place) const { return 1 + (from * 5 + to * 3 + place) % 4; }
  size_t size(uint32_t rank, Buffer b, uint32_t chunk) const {
    const uint32_t block = chunk / per_block_, place = chunk % per_block_;
    if (both_wide()) return b == Buffer::out ? pair_size(block, rank, place) : pair_size(rank, block, place);
    if (b == Buffer::in && wide_out()) return wide_size(rank * per_block_ + chunk);
    if (b == Buffer::out && wide_in()) return wide_size(rank * per_block_ + chunk);
    return wide_size(chunk % plans_[0].chunks);
  }

  static Element input(uint32_t rank, uint32_t chunk, size_t i) {
    const uint64_t x = Rng((rank * 131ull + chunk) * 131 + i + 1).next();
    return {x, x};
  }
  Chunk input_chunk(uint32_t rank, uint32_t chunk) const {
    Chunk c(size(rank, Buffer::in, chunk));
    for (size_t i = 0; i < c.size(); ++i) c[i] = input(rank, chunk, i);
    return c;
  }

  void make_memory(uint32_t rank) {
    auto& in = memory_[{rank, Buffer::in}];
    auto& out = memory_[{rank, Buffer::out}];
    const uint32_t in_chunks = wide_in() || both_wide() ? plans_[0].chunks : plans_[0].chunks / blocks();
    const uint32_t out_chunks = wide_out() || both_wide() ? plans_[0].chunks : plans_[0].chunks / blocks();
    if (owns(rank, Buffer::out))
      for (uint32_t c = 0; c < out_chunks; ++c)
        out.push_back(std::make_shared<Chunk>(size(rank, Buffer::out, c), kGarbage));
    if (owns(rank, Buffer::in))
      for (uint32_t c = 0; c < in_chunks; ++c) in.push_back(std::make_shared<Chunk>(input_chunk(rank, c)));
    if (run_.in_place && !in.empty() && !out.empty()) {
      // The narrower buffer is the own block of the wider one.
      for (uint32_t c = 0; c < std::min(in_chunks, out_chunks); ++c) {
        const uint32_t in_c = in_chunks > out_chunks ? rank * per_block_ + c : c;
        const uint32_t out_c = out_chunks > in_chunks ? rank * per_block_ + c : c;
        out[out_c] = in[in_c];
      }
    }
    auto& scratch = memory_[{rank, Buffer::scratch}];
    for (uint32_t c = 0; c < plans_[rank].scratch_chunks; ++c) scratch.push_back(std::make_shared<Chunk>(8, kGarbage));
  }

  Chunk& chunk_at(const LaneState& s, Buffer b, const ChunkWalk& walk, uint32_t k) {
    const int64_t m = b == Buffer::scratch ? s.plan->scratch_chunks : s.plan->chunks;
    if (m == 0 || walk.first < 0 || walk.first >= m) throw Trouble{"chunk out of range"};
    int64_t c = walk.first + static_cast<int64_t>(s.iteration) * walk.step;
    c = ((c % m + m) % m + k) % m;
    auto& chunks = memory_[{s.rank, b}];
    if (c >= static_cast<int64_t>(chunks.size())) throw Trouble{"chunk outside its buffer"};
    return *chunks[static_cast<size_t>(c)];
  }
  size_t chunk_size(const LaneState& s, Buffer b, const ChunkWalk& walk, uint32_t k) {
    const int64_t m = b == Buffer::scratch ? s.plan->scratch_chunks : s.plan->chunks;
    if (m == 0) throw Trouble{"no scratch"};
    int64_t c = walk.first + static_cast<int64_t>(s.iteration) * walk.step;
    c = ((c % m + m) % m + k) % m;
    return size(s.rank, b, static_cast<uint32_t>(c));
  }

  const Peer& peer(const LaneState& s, uint16_t first, uint32_t k) const {
    const int64_t count = static_cast<int64_t>(s.lane->peers.size());
    const Move& m = s.lane->moves[s.move];
    if (count == 0) throw Trouble{"no peers"};
    const int64_t slot = first + static_cast<int64_t>(s.iteration) * m.peer_step + k;
    return s.lane->peers[static_cast<size_t>((slot % count + count) % count)];
  }

  bool take_turn(LaneState& s) {
    if (s.move >= s.lane->moves.size()) return false;
    const Move& m = s.lane->moves[s.move];
    if (m.repeat == 0) throw Trouble{"no iterations"};
    if (!s.folded) {
      for (uint32_t k = 0; k < m.recv_count; ++k) {
        const Peer& p = peer(s, m.recv_first, k);
        if (fifos_[{p.rank, s.rank, p.channel}].empty()) return false;
      }
      fold(s, m);
      s.folded = true;
      s.sent = 0;
      return true;
    }
    for (; s.sent < m.send_count; ++s.sent) {
      const Peer& p = peer(s, m.send_first, s.sent);
      if (p.rank >= n_) throw Trouble{"no such rank"};
      if (p.channel >= 64) throw Trouble{"no such channel"};
      std::deque<Message>& fifo = fifos_[{s.rank, p.rank, p.channel}];
      if (fifo.size() >= run_.fifo_depth) return false;
      fifo.push_back(s.result);
    }
    s.folded = false;
    if (++s.iteration >= m.repeat) s.iteration = 0, ++s.move;
    return true;
  }

  void fold(LaneState& s, const Move& m) {
    std::vector<Message> operands;
    for (uint32_t k = 0; k < m.recv_count; ++k) {
      const Peer& p = peer(s, m.recv_first, k);
      std::deque<Message>& fifo = fifos_[{p.rank, s.rank, p.channel}];
      if (fifo.empty()) throw Trouble{"two messages of one FIFO in one step"};
      operands.push_back(std::move(fifo.front()));
      fifo.pop_front();
    }
    std::vector<size_t> sizes;
    const bool by_load = m.load_from != Buffer::none || m.store_to == Buffer::none;
    for (uint32_t k = 0; k < m.span; ++k)
      sizes.push_back(by_load ? chunk_size(s, m.load_from, m.load, k) : chunk_size(s, m.store_to, m.store, k));
    if (m.load_from != Buffer::none) {
      if (m.local_pos > operands.size()) throw Trouble{"operand number"};
      operands.insert(operands.begin() + m.local_pos, load(s, m, sizes));
    }
    if (operands.empty() || sizes.empty()) throw Trouble{"nothing to do"};
    if (operands.size() > 1 && !reduction()) throw Trouble{"no operation to fold with"};
    s.result = operands[0];
    for (const Message& operand : operands)
      for (uint32_t k = 0; k < m.span; ++k)
        if (operand.size() != m.span || operand[k].size() != sizes[k]) throw Trouble{"sizes differ"};
    for (uint32_t k = 0; k < m.span; ++k)
      for (size_t i = 0; i < sizes[k]; ++i) {
        Element& e = s.result[k][i];
        for (size_t o = 1; o < operands.size(); ++o) e = folded(e, operands[o][k][i]);
        if (m.complete && reduction()) e = finished(e);
      }
    if (m.store_to == Buffer::none) return;
    for (uint32_t k = 0; k < m.span; ++k) {
      Chunk& to = chunk_at(s, m.store_to, m.store, k);
      if (m.store_to != Buffer::scratch && to.size() != sizes[k]) throw Trouble{"stored beyond its chunk"};
      to = s.result[k];
    }
  }

  Message load(LaneState& s, const Move& m, const std::vector<size_t>& sizes) {
    Message message;
    for (uint32_t k = 0; k < m.span; ++k) {
      Chunk c = chunk_at(s, m.load_from, m.load, k);
      c.resize(sizes[k], kGarbage);
      if (m.load_from == Buffer::in && reduction())
        for (Element& e : c) e = lifted(e);
      message.push_back(std::move(c));
    }
    return message;
  }

  // What rank's out must hold at element i of its chunk c.
  uint64_t expected(uint32_t rank, uint32_t c, size_t i) const {
    const uint32_t block = c / per_block_, place = c % per_block_;
    uint64_t sum = 0;
    switch (shape_.collective) {
      case Collective::all_reduce:
      case Collective::reduce:
      case Collective::reduce_scatter:
        for (uint32_t r = 0; r < n_; ++r)
          sum += lifted(input(r, shape_.collective == Collective::reduce_scatter ? rank * per_block_ + c : c, i)).sum;
        return finished({sum, 0}).sum;
      case Collective::broadcast:
        return input(shape_.root, c, i).sum;
      case Collective::all_gather:
      case Collective::gather:
        return input(block, place, i).sum;
      case Collective::scatter:
        return input(shape_.root, rank * per_block_ + c, i).sum;
      default:
        return input(block, rank * per_block_ + place, i).sum;  // all_to_all
    }
  }

  void check() {
    for (uint32_t r = 0; r < n_; ++r) {
      const auto& out = memory_[{r, Buffer::out}];
      for (uint32_t c = 0; c < out.size(); ++c)
        for (size_t i = 0; i < out[c]->size(); ++i) {
          if ((*out[c])[i].sum != expected(r, c, i)) throw Trouble{"wrong result"};
          if (shape_.collective == Collective::all_reduce && (*out[c])[i] != (*memory_[{0, Buffer::out}][c])[i])
            throw Trouble{"ranks disagree"};
        }
      if (run_.in_place) continue;
      const auto& in = memory_[{r, Buffer::in}];
      for (uint32_t c = 0; c < in.size(); ++c)
        if (*in[c] != input_chunk(r, c)) throw Trouble{"input overwritten"};
    }
  }

  const Shape shape_;
  const std::span<const Plan> plans_;
  const ReferenceRun run_;
  Rng rng_;
  const uint32_t n_, per_block_;
  std::map<std::pair<uint32_t, Buffer>, std::vector<std::shared_ptr<Chunk>>> memory_;
  std::map<Name, std::deque<Message>> fifos_;
  std::vector<LaneState> lanes_;
};

}  // namespace

std::string run_reference(const Shape& shape, std::span<const Plan> plans, const ReferenceRun& run) {
  try {
    for (const Plan& plan : plans)
      if (plan.chunks == 0 || plan.chunks > 100000 || plan.scratch_chunks > 100000) return "no such memory";
    Reference(shape, plans, run).run();
    return {};
  } catch (const Trouble& trouble) {
    return trouble.what;
  }
}

}  // namespace tutti
