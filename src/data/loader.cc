// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/fault_point.h"

namespace zaya {

// One sample on its way into a row.
struct SampleLoader::Row {
  std::vector<Piece> pieces;
  std::vector<std::int32_t> tokens;  // up to L + 1
  std::vector<Index> starts;         // places in `tokens` where a segment begins, 0 first
};

SampleLoader::SampleLoader(std::vector<const Shard*> shards, const SamplePlan& plan,
                           bool isolates_documents)
    : shards_(std::move(shards)), plan_(plan), isolates_documents_(isolates_documents) {}

namespace {

// Does `next` go on in the document where `before` ended? Only empty sequences may lie between.
bool is_continued(const TokenIndex& index, const Piece& before, const Piece& next) {
  if (next.sequence <= before.sequence || next.begin != 0) return false;
  for (Index s = before.sequence + 1; s < next.sequence; ++s) {
    if (index.length(s) > 0) return false;
  }
  const Index document = index.document_of(before.sequence);
  return next.sequence < index.document_begin(document + 1);
}

}  // namespace

void SampleLoader::read_tokens(const Sample& sample, Row& row) const {
  const Shard& shard = *shards_[sample.source];
  row.pieces.clear();
  row.starts.assign(1, 0);
  plan_.append_pieces(sample, row.pieces);
  Index count = 0;
  for (const Piece& piece : row.pieces) count += piece.end - piece.begin;
  row.tokens.resize(static_cast<std::size_t>(count));
  Index at = 0;
  for (std::size_t i = 0; i < row.pieces.size(); ++i) {
    const Piece& piece = row.pieces[i];
    shard.read(piece.sequence, piece.begin, piece.end, row.tokens.data() + at);
    if (i > 0 && isolates_documents_ && !is_continued(shard.index(), row.pieces[i - 1], piece)) {
      row.starts.push_back(at);
    }
    at += piece.end - piece.begin;
  }
}

// Which documents the row's inputs come from.
void SampleLoader::name_documents(const Row& row, Index number, Batch& batch) const {
  const TokenIndex& index = shards_[batch.samples[number].source]->index();
  Index begin = number * batch.length;
  const Index inputs_end = begin + static_cast<Index>(row.tokens.size()) - 1;
  const std::size_t first = batch.documents.size();
  for (const Piece& piece : row.pieces) {
    const Index end = std::min(begin + piece.end - piece.begin, inputs_end);
    const Index document = index.document_of(piece.sequence);
    if (batch.documents.size() > first && batch.documents.back().document == document) {
      batch.documents.back().end = end;
    } else if (begin < end) {
      batch.documents.push_back({number, begin, end, document});
    }
    begin = end;
  }
}

void SampleLoader::fill_row(const Row& row, Index number, Batch& batch) const {
  const Index length = batch.length, first = number * length;
  const Index inputs = static_cast<Index>(row.tokens.size()) - 1;
  ZAYA_CHECK(inputs >= 1 && inputs <= length);
  const std::size_t first_segment = batch.segments.size();
  std::int32_t* ids = batch.ids.data() + first;
  std::int32_t* targets = batch.targets.data() + first;
  std::int32_t* positions = batch.positions.data() + first;
  std::copy_n(row.tokens.begin(), inputs, ids);
  std::copy_n(row.tokens.begin() + 1, inputs, targets);
  std::fill(ids + inputs, ids + length, 0);
  std::fill(targets + inputs, targets + length, -1);
  batch.num_targets += inputs;
  for (std::size_t i = 0; i < row.starts.size(); ++i) {
    const Index begin = row.starts[i];
    if (i > 0) {
      targets[begin - 1] = -1;
      --batch.num_targets;
    }
    if (begin == inputs) break;  // the sample's last token begins a document: a target only
    const Index end = i + 1 < row.starts.size() ? row.starts[i + 1] : inputs;
    batch.segments.push_back({number, first + begin, first + std::min(end, inputs), false});
  }
  if (inputs < length) batch.segments.push_back({number, first + inputs, first + length, true});
  batch.num_padding += length - inputs;
  for (std::size_t i = first_segment; i < batch.segments.size(); ++i) {
    const BatchSegment& segment = batch.segments[i];
    std::iota(positions + (segment.begin - first), positions + (segment.end - first), 0);
  }
}

void SampleLoader::load(Index first_sample, Index rows, Batch& batch) const {
  ZAYA_CHECK(first_sample >= 0 && rows >= 1);
  batch.rows = rows;
  batch.length = plan_.sequence_length();
  batch.first_sample = first_sample;
  batch.num_targets = batch.num_padding = 0;
  const auto count = static_cast<std::size_t>(rows * batch.length);
  batch.ids.resize(count);
  batch.targets.resize(count);
  batch.positions.resize(count);
  batch.segments.clear();
  batch.documents.clear();
  batch.samples.clear();
  Row row;
  for (Index r = 0; r < rows; ++r) {
    batch.samples.push_back(plan_.at(first_sample + r));
    read_tokens(batch.samples.back(), row);
    fill_row(row, r, batch);
    name_documents(row, r, batch);
  }
}

void SampleLoader::will_need(Index first_sample, Index rows) const {
  std::vector<Piece> pieces;
  for (Index r = 0; r < rows; ++r) {
    const Sample sample = plan_.at(first_sample + r);
    const Shard& shard = *shards_[sample.source];
    const Index token_bytes = bytes_per_token(shard.index().type());
    pieces.clear();
    plan_.append_pieces(sample, pieces);
    // Neighbours in the file are one request.
    Index begin = 0, end = 0;
    for (const Piece& piece : pieces) {
      const Index position = shard.index().position(piece.sequence);
      const Index first = position + piece.begin * token_bytes;
      if (first != end) {
        shard.will_need(begin, end);
        begin = first;
      }
      end = position + piece.end * token_bytes;
    }
    shard.will_need(begin, end);
  }
}

// Batches go round a ring: slot k % ring.size() holds batch k from its loading until the call of
// next() after the one that handed it out.
struct Prefetcher::State {
  Schedule schedule;
  Index depth = 0;
  std::vector<Batch> ring;
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  Index num_loaded = 0;        // batches loaded
  Index num_taken = 0;         // batches handed out
  bool is_stopping = false;    // the owner is going away
  bool is_finished = false;    // no batch after num_loaded
  std::exception_ptr failure;  // why, when it is not the end of the schedule
  double wait_seconds = 0;
  std::thread thread;

  void run();
  bool load(Index k);
  void hint(Index k) const;
};

void Prefetcher::State::hint(Index k) const {
  Request request;
  if (schedule(k, request)) request.loader->will_need(request.first_sample, request.rows);
}

// False at the end of the schedule.
bool Prefetcher::State::load(Index k) {
  Request request;
  if (!schedule(k, request)) return false;
  fault_point("data.load");
  request.loader->load(request.first_sample, request.rows, ring[k % ring.size()]);
  hint(k + depth);
  return true;
}

void Prefetcher::State::run() {
  try {
    for (Index k = 0; k < depth; ++k) hint(k);
  } catch (...) {
    // The same failure comes back when that batch is loaded.
  }
  for (Index k = 0;; ++k) {
    {
      std::unique_lock lock(mutex);
      // The batch in use keeps its slot.
      changed.wait(lock, [&] { return is_stopping || k - num_taken < depth; });
      if (is_stopping) return;
    }
    bool is_loaded = false;
    std::exception_ptr problem;
    try {
      is_loaded = load(k);
    } catch (...) {
      problem = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    failure = problem;
    is_finished = !is_loaded;
    num_loaded += is_loaded ? 1 : 0;
    changed.notify_all();
    if (is_finished) return;
  }
}

Prefetcher::Prefetcher(Schedule schedule, Index depth) : state_(std::make_unique<State>()) {
  ZAYA_CHECK(depth >= 1);
  state_->schedule = std::move(schedule);
  state_->depth = depth;
  state_->ring.resize(static_cast<std::size_t>(depth) + 1);
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

const Batch* Prefetcher::next() {
  State& s = *state_;
  const double start = monotonic_seconds();
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return s.num_loaded > s.num_taken || s.is_finished; });
  s.wait_seconds += monotonic_seconds() - start;
  if (s.num_loaded == s.num_taken) {
    if (s.failure) std::rethrow_exception(s.failure);
    return nullptr;
  }
  const Index k = s.num_taken++;
  s.changed.notify_all();
  return &s.ring[k % s.ring.size()];
}

double Prefetcher::take_wait_seconds() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->wait_seconds, 0.0);
}

}  // namespace zaya
